#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --rdzv_backend etcd the nodes of a job find each other without a host of their own: the master
# is told to leave, etcd hangs for a moment and for longer, two jobs have one id, the job has ended,
# etcd asks for a password.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
start_etcd 1 "$here"
etcd=(--rdzv_backend etcd --rdzv_endpoint "$(etcd_endpoints)")
program='until [ -e "$0/$1" ]; do sleep 0.05; done; echo "done at $MASTER_ADDR:$MASTER_PORT"'
is_master() { grep -q 'this node is the master' "$err"; }

# Any node may be the master. A master that leaves hands over at once: long before its key would vanish.
job=("${etcd[@]}" --rdzv_id leaves --nnodes 2:3 --last_call_timeout 60s sh -c "$program" "$work" first)
for node in a b c; do on "$node" start "${job[@]}"; done
for node in a b c; do on "$node" wait_for_event round_ready '"round":0,'; done
rest=()
for node in a b c; do
  if on "$node" is_master; then leaver=$node; else rest+=("$node"); fi
done
on "$leaver"
kill -TERM "$ddprun"
finish
expect_exit 143
for node in "${rest[@]}"; do
  on "$node" wait_for_event round_ready '"round":1,"restarts":0,'
  expect_no_stderr 'killing this node.s workers'  # their leases were not over
done

# Another program with this id is no part of the job, nor is another number of nodes.
on other run "${etcd[@]}" --rdzv_id leaves --nnodes 2:3 true
expect_exit 2
expect_stderr "it runs 'true', which no node of this job ran when it began .* runs 'sh"
run "${etcd[@]}" --rdzv_id leaves --nnodes 2 true
expect_exit 2
expect_stderr 'its job has --nnodes 2:3, this node was started with 2'

# A node that comes late does not begin an ended job again.
: >"$work/first"
for node in "${rest[@]}"; do
  on "$node" finish
  expect_exit 0
  expect_stdout 'done at 127\.'
done
on late run "${job[@]}"
expect_exit 1
expect_stderr "job 'leaves' ended without this node: it succeeded; another job needs another --rdzv_id"

# An etcd that hangs for less than half of the key's time to live, 15 s here, is not noticed.
job=("${etcd[@]}" --rdzv_id hangs --nnodes 2 sh -c "$program" "$work" second)
for node in a b; do on "$node" start "${job[@]}"; done
for node in a b; do on "$node" wait_for_event round_ready '"round":0,'; done
freeze_etcd 1
sleep 1
thaw_etcd 1
: >"$work/second"
for node in a b; do
  on "$node" finish
  expect_exit 0
  expect_no_stderr 'not the master'
  expect_no_stderr 'lost the master'
done

# If etcd hangs for longer, the workers stop, and the job continues when etcd is back.
job=("${etcd[@]}" --rdzv_id stops --nnodes 2 "${quick[@]}" sh -c "$program" "$work" third)
for node in a b; do on "$node" start "${job[@]}"; done
for node in a b; do on "$node" wait_for_event round_ready '"round":0,'; done
freeze_etcd 1
has_stepped_down() {
  cat "$work"/.[ab].stderr | grep -q "is not the master of job 'stops' any more: no answer of etcd for 6 s"
}
wait_until has_stepped_down
for node in a b; do on "$node" wait_for_event worker_ended; done
thaw_etcd 1
for node in a b; do on "$node" wait_for_event round_ready '"round":1,"restarts":0,'; done
: >"$work/third"
for node in a b; do
  on "$node" finish
  expect_exit 0
done

# A password is needed, not shown to workers, and a wrong one is reported.
{ ctl user add root:toor && ctl role add root && ctl user grant-role root root && ctl auth enable; } \
  &>"$work/auth" || fail "etcd: $(cat "$work/auth")"
job=("${etcd[@]}" --rdzv_id secret sh -c '
  echo "user=$DDPRUN_ETCD_USER"
  for pid in $PPID $(cut -d " " -f 4 /proc/$PPID/stat); do
    if tr "\0" "\n" </proc/$pid/environ | grep -q toor; then echo "process $pid shows the password"; fi
  done')
DDPRUN_ETCD_USER=root:toor run "${job[@]}"
expect_exit 0
expect_stdout '^user=$'
expect_no_stdout password
DDPRUN_ETCD_USER=root:wrong run "${job[@]}"
expect_exit 2
expect_stderr "etcd at .*: user 'root': .*authentication failed.*; correct DDPRUN_ETCD_USER"

end_etcd
expect_no_process_left
