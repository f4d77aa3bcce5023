#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The status of a program that uses `ddp` shows the collective call of each rank. It names a rank that has not begun a
# call in which the others wait, however they wait.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

worker=$DDPRUN_BIN/failures_worker
[ -x "$worker" ] || skip "there is no failures_worker"
export XDG_RUNTIME_DIR=$work FAILURES_RANK=1
start --nproc_per_node 3 --hang_timeout 12 "$worker" hang_longer
shows() {  # shows REGEX...: each is in one status
  local status regex
  status=$("$DDPRUN" status "$ddprun" 2>/dev/null) || return 1
  for regex in "$@"; do grep -qE "$regex" <<<"$status" || return 1; done
}
wait_until shows '^0 .* in #2 all_reduce\[4\]$' '^1 .* after #1 barrier$' '^2 .* in #2 all_reduce\[4\]$'
finish
expect_exit 124
expect_stderr 'rank 1 \(.*\) is the likely cause: after #1 barrier.*, while ranks 0, 2 waited in #2 all_reduce\[4\]'
expect_no_process_left
