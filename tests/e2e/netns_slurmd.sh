# SPDX-License-Identifier: Apache-2.0
# Tests with a real Slurm source this: of three hosts the first $slurm_hosts, 2 by default, have a slurmd each.
# All have a munged where libmunge looks for it, as sites have, so their jobs have a secret.
#
#   slurm LINE...               starts it, with these lines in its configuration; a job that was
#                               requeued waits for $requeue_wait seconds before it runs again
#   end_slurm                   ends it
#   on_host I COMMAND...        runs COMMAND on host I to its end: $code, $out, $err
#   at I COMMAND...             becomes COMMAND on host I
#   submit OPTIONS... -- LINE   a batch script of that line: $job is its number
#   batch OPTIONS... -- LINE    the same to its end: $code, $out, $err
#
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
for tool in munged slurmctld slurmd srun; do
  command -v "$tool" >/dev/null || skip "there is no $tool (packages munge, slurmctld, slurmd, slurm-client)"
done
export SLURM_CONF=$work/slurm.conf

# `ip netns exec` would hide the control groups, which slurmd asks for.
at() {
  exec env "$mark" unshare --uts --mount sh "$work/.enter" "$1" \
    nsenter --net="/run/netns/$net-$1" "${@:2}"
}

daemons=()
daemon() {  # daemon HOST COMMAND...
  at "$@" >"$work/.daemon.${#daemons[@]}" 2>&1 &
  daemons+=($!)
}

on_host() {
  code=0 out=$work/.host.stdout err=$work/.host.stderr
  (at "$1" timeout "$deadline" "${@:2}" </dev/null >"$out" 2>"$err") || code=$?
}

all_are_idle() {
  on_host 1 sinfo --noheader --states idle --format %n
  [ "$(sort -u "$out" | wc -l)" = "${slurm_hosts:-2}" ]
}

show_jobs() {  # what a test that fails needs; its folder is gone then
  local file
  [ -z "$checked" ] || return 0
  for file in "$work"/[0-9]*.out "$work"/[0-9]*.err "$work"/.daemon.*; do
    [ ! -s "$file" ] || { echo "--- ${file##*/}:" && tail -c 4000 "$file"; } >&2
  done
}

slurm() {
  at_exit+=(show_jobs)
  hosts 3 4
  {
    cat <<END
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/munge.socket.2,cred_expire=${requeue_wait:-120}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
NodeName=node[1-${slurm_hosts:-2}] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    [ $# = 0 ] || printf '%s\n' "$@"
  } >"$SLURM_CONF"
  mkdir "$work/state" "$work/munge"
  exec 8</run
  flock --shared 8
  mkdir --mode 1755 /run/munge 2>/dev/null || true  # sticky: made by one of these tests
  at_exit+=(remove_munge)
  sed -i "1i mount --bind '$work/munge' /run/munge" "$work/.enter"
  head -c 1024 /dev/urandom >"$work/munge.key"
  chmod 400 "$work/munge.key"
  daemon 1 munged --foreground --force --socket "$work/munge/munge.socket.2" --key-file "$work/munge.key" \
    --pid-file "$work/munged.pid" --seed-file "$work/munged.seed" --log-file "$work/munged.log"
  code=running
  wait_until test -S "$work/munge/munge.socket.2"
  daemon 1 slurmctld -D
  local host
  for ((host = 1; host <= ${slurm_hosts:-2}; ++host)); do daemon $host slurmd -D -N node$host; done
  wait_until all_are_idle
}

remove_munge() {  # the last test that uses it
  if [ -k /run/munge ] && flock --nonblock 8; then rmdir /run/munge; fi
}

end_slurm() {
  local i
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
}

# The output of job $job is in the files "$work/$job.out" and "$work/$job.err".
submit() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  printf '#!/bin/sh\n%s\n' "${*:2}" >"$work/script"
  on_host 1 sbatch --parsable "${options[@]}" --output "$work/%j.out" --error "$work/%j.err" \
    --open-mode append "$work/script"
  [ "$code" = 0 ] || fail "sbatch: $(cat "$err")"
  job=$(cat "$out")
  touch "$work/$job.out" "$work/$job.err"
  code=running
}

job_field() {  # job_field NAME: what Slurm says of job $job
  (at 1 scontrol --oneliner show job "$job") | tr ' ' '\n' | sed -n "s/^$1=//p"
}
job_is() {  # job_is STATE...
  local state
  state=$(job_field JobState)
  [[ " $* " == *" $state "* ]]
}
job_is_over() {  # an answer that does not come says nothing
  local state
  state=$(job_field JobState)
  [ -n "$state" ] && [[ " PENDING RUNNING COMPLETING " != *" $state "* ]]
}

of_job() {  # its output is $out and $err from now on
  out=$work/$job.out err=$work/$job.err
}

batch() {
  submit "$@"
  wait_until job_is_over
  code=$(job_field ExitCode)
  code=${code%:*}
  of_job
}
