#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers that cannot start, because the disk of their log files has stalled, and output and events
# that cannot be written do not keep ddprun from being stopped, nor from ending.
. "$(dirname "${BASH_SOURCE[0]}")/disk.sh"

wait='until [ -e "$0/go" ]; do sleep 0.02; done'

disk
start --nproc_per_node 2 --log_dir "$disk/logs" --max_restarts 1 bash -c "$wait; exit 3" "$work"
wait_for_event worker_started '"rank":1'
freeze
: >"$work/go"
wait_for_event restart
wait_for_stderr 'waiting [0-9.]+ s for the disk of --log_dir'
! has_event round_ready '"round":1' || fail "the directories of round 1 were created"
kill -INT "$ddprun"
wait_for_event job_ended '"exit_code":130'
thaw
finish
expect_exit 130
expect_no_process_left

console=$out out=$disk/out
start --nproc_per_node 2 --shutdown_timeout 3600 \
  bash -c 'trap "" INT; : >"$0/ready$RANK"; until [ -e "$0/frozen" ]; do sleep 0.02; done
    seq 1000; exec sleep 3600' "$work"
out=$console
for rank in 0 1; do wait_until [ -e "$work/ready$rank" ]; done
freeze
: >"$work/frozen"
kill -INT "$ddprun"
wait_for_event round_stopping
kill -INT "$ddprun"
wait_for_event job_ended '"exit_code":130'
thaw
finish
expect_exit 130
expect_no_process_left

rm "$work/go"
record=$events events=$disk/events
start bash -c ": >\"\$0/alone\"; $wait" "$work"
events=$record
wait_until [ -e "$work/alone" ]
freeze
: >"$work/go"
wait_for_stderr 'cannot write to the events file .*: its disk has stalled; events are missing$'
thaw
finish
expect_exit 0
expect_no_process_left
