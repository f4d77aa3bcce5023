#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When the reader of the output closes its pipe (| head), job and workers go on; if they print on, that is said once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

code=0
env "$mark" "$DDPRUN" --nproc_per_node 2 --events "$events" sh -c 'seq 100000; exit 0' 2>"$err" |
  head -1 >"$out" || true
wait_for_event job_ended '"exit_code":0'
expect_stdout '^\[[01]\] 1$'
expect_no_process_left soon

only_later_events
env "$mark" "$DDPRUN" --nproc_per_node 2 --events "$events" sh -c "until [ -e $work/end ]; do echo x; sleep 0.1; done" \
  2>"$err" | head -1 >"$out" &
wait_for_stderr '^ddprun: the reader of stdout has ended: the job goes on, its output is dropped$'
touch "$work/end"
wait_for_event job_ended '"exit_code":0'
[ "$(grep -c 'the reader of stdout' "$err")" = 1 ] || fail 'it is said again'
expect_no_process_left soon
