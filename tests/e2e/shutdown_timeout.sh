#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --shutdown_timeout applies whatever stops the workers: one that ignores the signal is killed when it
# is over, and not before. For a failed worker see shutdown_timeout_after_failure.sh.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
grace=(--shutdown_timeout 1)  # a trap runs within it, also on a busy machine
killed='did not stop within 1 s \(--shutdown_timeout\): killed'
# Reports the signal, and stays.
stubborn='trap "echo got TERM" TERM; echo up; while :; do sleep 600 & wait; done'

# A restart.
run --nproc_per_node 2 --max_restarts 1 "${grace[@]}" bash -c '
  [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
  if [ $RANK = 0 ]; then until [ -e "$0" ]; do sleep 0.01; done; exit 5; fi
  trap "echo got TERM" TERM; touch "$0"; while :; do sleep 600 & wait; done' "$work/ready"
expect_exit 0
expect_stdout '^\[1\] got TERM$'
expect_stderr "rank 1 $killed"
expect_no_process_left

# A signal to ddprun.
start "${grace[@]}" bash -c "$stubborn"
wait_for_stdout up
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stdout 'got TERM'
expect_stderr "rank 0 $killed"
expect_no_process_left

# A process that a finished worker left behind.
run "${grace[@]}" bash -c '
  setsid bash -c "trap \"\" TERM; touch $0; while :; do sleep 600; done" &
  until [ -e "$0" ]; do sleep 0.01; done' "$work/stray"
expect_exit 0
expect_stderr "processes the workers left behind $killed"
expect_no_process_left

# Another node joins: the workers of the first one are stopped.
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" --last_call_timeout 10ms "${grace[@]}")
on a start "${job[@]}" bash -c "$stubborn"
wait_for_stdout up
on b start "${job[@]}" --rdzv_conf is_host=false bash -c "$stubborn"
on b wait_for_stdout up
up_twice() { [ "$(grep -c up "$out")" = 2 ]; }
on a wait_until up_twice
on a expect_stdout 'got TERM'
on a expect_stderr "rank 0 $killed"

# Another node's failure ends the job.
on b
kill -KILL "$(worker_of)"
on a finish
on a expect_exit 137
on b finish
[ "$(grep -cE "$killed" "$work/.a.stderr")" = 2 ] || fail 'no grace for the job'"'"'s end'
expect_no_process_left
