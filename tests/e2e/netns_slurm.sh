#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts a program of the collectives library starts directly with srun, on
# one host and on both, and so do the agents of a job of two nodes, with flags or without. In a batch
# script, and in salloc's command on another host, ddprun starts the agents itself.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
for tool in munged slurmctld slurmd srun; do
  command -v "$tool" >/dev/null || skip "there is no $tool (packages munge, slurmctld, slurmd, slurm-client)"
done
hosts 3 4
hello=$DDPRUN_BIN/allreduce_hello
export SLURM_CONF=$work/slurm.conf

cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
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
NodeName=node[1-2] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END

# `ip netns exec` would hide the control groups, which slurmd asks for.
at() {  # at HOST COMMAND...
  exec env "$mark" unshare --uts --mount sh "$work/.enter" "$1" \
    nsenter --net="/run/netns/$net-$1" "${@:2}"
}
daemons=()
daemon() {  # daemon HOST COMMAND...
  at "$@" >"$work/.daemon.${#daemons[@]}" 2>&1 &
  daemons+=($!)
}
on_host_1() { on_host 1 "$@"; }
on_host() {
  code=0
  (at "$1" timeout "$deadline" "${@:2}" </dev/null >"$out" 2>"$err") || code=$?
}
both_are_idle() {
  on_host_1 sinfo --noheader --states idle --format %D
  [ "$(cat "$out")" = 2 ]
}

mkdir "$work/state"
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
daemon 1 munged --foreground --force --socket "$work/munge.socket" --key-file "$work/munge.key" \
  --pid-file "$work/munged.pid" --seed-file "$work/munged.seed" --log-file "$work/munged.log"
code=running
wait_until test -S "$work/munge.socket"
daemon 1 slurmctld -D
daemon 1 slurmd -D -N node1
daemon 2 slurmd -D -N node2
wait_until both_are_idle

expect_four_sums() {
  local rank
  [ "$code" = 0 ] || fail "exit code $code: $(cat "$err")"
  for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
  [ "$(grep -c sum "$out")" = 4 ] || fail "a rank printed its sum more than once"
}
on_host_1 srun --nodes 1 --ntasks 4 "$hello"
expect_four_sums
on_host_1 srun --nodes 2 --ntasks 4 "$hello"
expect_four_sums
on_host_1 srun --nodes 2 --ntasks-per-node 1 \
  "$DDPRUN" --nnodes 2 --rdzv_endpoint node1:29500 --nproc_per_node 2 "$hello"
expect_four_sums
# Slurm says the rest: nodes, ranks, the host of the rendezvous.
on_host_1 srun --nodes 2 --ntasks-per-node 1 "$DDPRUN" --nproc_per_node 2 "$hello"
expect_four_sums
on_host_1 srun --nodes 2 --ntasks-per-node 1 "$DDPRUN" doctor
expect_stdout '^doctor: .* 2 nodes$'
on_host_1 srun --nodes 2 --ntasks 4 "$DDPRUN" --nproc_per_node 2 "$hello"
[ "$code" != 0 ] || fail "several tasks on a node were not refused"
expect_stderr 'srun started 3 tasks on a node, .* use srun --ntasks-per-node=1'

batch() {  # batch COMMAND...: in a script of two nodes
  printf '#!/bin/sh\n%s\n' "$*" >"$work/script"
  on_host_1 sbatch --wait --nodes 2 --output "$work/batch.out" --error "$work/batch.err" "$work/script"
  cp "$work/batch.out" "$out"
  cp "$work/batch.err" "$err"
}
batch "exec $DDPRUN --nproc_per_node 2 $hello"
expect_four_sums
batch "exec $DDPRUN doctor"
expect_stdout '^doctor: .* 2 nodes$'
# shellcheck disable=SC2016
batch "exec $DDPRUN sh -c 'test \$RANK = 0 || exit 7; exec sleep 1000'"
expect_exit 7
[ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
on_host 3 salloc --nodes 2 "$DDPRUN" --nproc_per_node 2 "$hello"  # host 3 has no slurmd
expect_four_sums

for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
  kill "${daemons[i]}"
  wait "${daemons[i]}" 2>/dev/null || true
done
expect_no_process_left soon
