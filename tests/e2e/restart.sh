#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A failure restarts all workers while restarts are left, with the same ranks and a new restart count.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 3 --max_restarts 2 sh -c '
  echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS"
  [ "$TORCHELASTIC_RESTART_COUNT" = 2 ] && exit 0
  [ "$RANK" = 1 ] && { echo "rank one is tired" >&2; exit 9; }
  exec sleep 600'
expect_exit 0
expect_stdout '^\[2\] try 2 of 2$'
expect_stderr 'rank 1 failed first: exit 9 .*round 0\): rank one is tired'
expect_stderr 'restart 1 of 2: round 1 with 1 node, 3 workers, ready .* after the failure'
expect_stderr 'restart 2 of 2: round 2'
expect_no_stderr 'restarts were asked for'
[ "$(grep -c '"event":"worker_started"' "$events")" = 9 ] || fail "not three rounds of three"
expect_no_process_left

# The report has the last words of this round, not of the one before.
run --max_restarts 1 sh -c 'echo "words of round $TORCHELASTIC_RESTART_COUNT" >&2; exit 3'
expect_exit 3
expect_stderr '^ {8,}words of round 1$'
expect_no_stderr '^ {8,}words of round 0$'
expect_no_process_left

run --nproc_per_node 2 --max_restarts 1 sh -c '[ "$RANK" = 0 ] && exit 7; exec sleep 600'
expect_exit 7
expect_stderr 'exit code 7; no restart left \(1 of 1 used\)'
expect_no_process_left
