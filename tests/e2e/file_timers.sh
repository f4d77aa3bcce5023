#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker that lets a timer of PyTorch's FileTimerClient end is killed, and the report says why; the pipe is
# removed with the job.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/worker" <<'END'
#!/bin/sh
acquire() {
  echo "{\"version\": 1, \"pid\": $$, \"scope_id\": \"$1\", \"expiration_time\": $2, \"signal\": 9}" >"$TORCHELASTIC_TIMER_FILE"
}
echo "$TORCHELASTIC_TIMER_FILE"
acquire released 9999999999
echo "{\"version\": 1, \"pid\": $$, \"scope_id\": \"released\", \"expiration_time\": -1, \"signal\": 0}" >"$TORCHELASTIC_TIMER_FILE"
[ "$RANK" = 0 ] || acquire 'step 1' 1.5
exec sleep 1000
END
chmod +x "$work/worker"

TORCHELASTIC_ENABLE_FILE_TIMER=1 run --nproc_per_node 2 --no_prefix --max_restarts 1 "$work/worker"
expect_exit 137
expect_stderr "^ddprun: rank 1: the timer 'step 1' of pid [0-9]+ expired: SIGKILL$"
expect_stderr "^ddprun: rank 1 failed first: killed by SIGKILL .*: its timer 'step 1' expired \(TORCHELASTIC_TIMER_FILE\)$"
expect_stderr '^ddprun: restart 1 of 1'
pipe=$(head -n 1 "$out")
[ -n "$pipe" ] || fail 'the workers got no pipe'
[ ! -e "$pipe" ] || fail "$pipe is left"
expect_no_process_left

TORCHELASTIC_ENABLE_FILE_TIMER=1 TORCHELASTIC_TIMER_FILE=$work/mine start "$work/worker"
wait_for_stdout "^$work/mine$"
test -p "$work/mine" || fail "$work/mine is no pipe"
kill -TERM "$ddprun"
finish
[ ! -e "$work/mine" ] || fail "$work/mine is left"
expect_no_process_left
