#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A reader that stops reading only slows the workers down: a failure is still handled, and no line is
# lost.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkfifo "$work/fifo"
exec 3<>"$work/fifo"  # holds the pipe open and does not read yet
file=$out out=$work/fifo
start --nproc_per_node 2 \
  sh -c '[ "$RANK" = 1 ] && exec sleep 600; seq 2000000; echo end; exit 3'
out=$file
wait_for_event worker_started '"rank":1'
# The writer is blocked for good now, unless lines were dropped: it cannot have ended.
! has_event worker_ended || fail "rank 0 ended although its output was not read"
cat <&3 >"$out" &
reader=$!
finish
expect_exit 3
wait_until grep -q '^\[0\] end$' "$out"
kill "$reader"
[ "$(grep -c '^\[0\] [0-9]*$' "$out")" = 2000000 ] || fail "lines are lost"
expect_no_process_left
