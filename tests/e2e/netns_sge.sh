#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job script of a real SGE of two hosts ddprun starts the agents with qrsh -inherit.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
unpacked=$("$(dirname "${BASH_SOURCE[0]}")/../../scripts/sge-env" --where)
bin=/usr/lib/gridengine  # where its programs look for its libraries
share=$unpacked/usr/share/gridengine
[ -n "$unpacked" ] || skip "there is no SGE: scripts/setup --interop unpacks that of Debian"
over_usr_lib="mount -t overlay overlay -o 'lowerdir=$unpacked/usr/lib:/usr/lib' /usr/lib"
unshare --mount sh -c "$over_usr_lib" 2>"$work/why" || skip "no overlays here: $(cat "$work/why")"
hosts 2 4
sed -i "1i $over_usr_lib" "$work/.enter"
hello=$DDPRUN_BIN/allreduce_hello
export SGE_ROOT=$work/sge SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445 SGE_ND=true
export PATH=$bin:$PATH
common=$SGE_ROOT/default/common
spool=$work/spool

at() {  # at HOST COMMAND...
  exec env "$mark" unshare --uts --mount sh "$work/.enter" "$1" \
    nsenter --net="/run/netns/$net-$1" "${@:2}"
}
on_master() {
  (at 1 timeout "$deadline" "$@") >>"$work/set-up" 2>&1
}
daemon() {  # daemon HOST COMMAND...
  at "$@" >"$work/daemon.$1.$2" 2>&1 &
}

mkdir -p "$common" "$spool/qmaster/job_scripts" "$work/execd"
for folder in bin lib utilbin; do
  mkdir "$SGE_ROOT/$folder"
  ln -s "$bin" "$SGE_ROOT/$folder/lx-amd64"
done
ln -s "$share/util" "$SGE_ROOT/util"
echo node1 >"$common/act_qmaster"
cat >"$common/bootstrap" <<END
admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         classic
spooling_lib            libspoolc
spooling_params         $common;$spool/qmaster
binary_path             $bin
qmaster_spool_dir       $spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
END
sed -e "s|^execd_spool_dir.*|execd_spool_dir $work/execd|" -e '/^min_.id/d' \
  -e 's|^load_report_time.*|load_report_time 00:00:01|' -e 's|/usr/bin/mail|/bin/true|' \
  "$share/default-configuration" >"$work/configuration"
on_master spoolinit classic libspoolc "$common;$spool/qmaster" init
on_master spooldefaults configuration "$work/configuration"
on_master spooldefaults complexes "$share/util/resources/centry"
on_master spooldefaults usersets "$share/util/resources/usersets"
on_master spooldefaults managers root
code=running
daemon 1 sge_qmaster
wait_until on_master qconf -sh
on_master qconf -ah node2
on_master qconf -as node1,node2
daemon 1 sge_execd
daemon 2 sge_execd

cat >"$work/environment" <<END
pe_name            ddprun
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    2
control_slaves     TRUE
job_is_first_task  FALSE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
END
on_master qconf -Ap "$work/environment"
(at 1 qconf -sq) | sed -e 's|^qname.*|qname all.q|' -e 's|^hostlist.*|hostlist node1 node2|' \
  -e 's|^slots .*|slots 4|' -e 's|^pe_list.*|pe_list ddprun|' \
  -e 's|^load_thresholds.*|load_thresholds NONE|' >"$work/queue"
on_master qconf -Aq "$work/queue"
(at 1 qconf -ssconf) | sed -e 's|^schedule_interval.*|schedule_interval 0:0:1|' \
  -e 's|^flush_submit_sec.*|flush_submit_sec 1|' -e 's|^flush_finish_sec.*|flush_finish_sec 1|' \
  >"$work/scheduler"
on_master qconf -Msconf "$work/scheduler"

batch() {  # batch LINE: a job script of that line on both hosts, to its end
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nPATH=%s:$PATH\n%s\necho $? >%s\n' $bin "$1" "$work/code" >"$work/script"
  out=$work/job.out err=$work/job.err
  rm -f "$work/code" "$out" "$err"
  code=running
  (at 1 qsub -terse -pe ddprun 4 -V -S /bin/sh -o "$out" -e "$err" "$work/script") >"$work/job"
  wait_until test -s "$work/code"
  code=$(cat "$work/code")
}
batch "$DDPRUN --nproc_per_node 2 $hello"
expect_exit 0
for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
# shellcheck disable=SC2016
batch "$DDPRUN sh -c 'test \$RANK = 0 || exit 7; exec sleep 1000'"
expect_exit 7
[ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
code=running
no_agent() {
  local pid
  for pid in $(survivors); do
    ! grep -qs '^ddp' "/proc/$pid/comm" || return 1
  done
}
wait_until no_agent

for pid in $(survivors); do kill "$pid"; done
expect_no_process_left soon
