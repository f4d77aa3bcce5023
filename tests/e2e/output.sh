#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Output is passed on completely: prefixed lines, stdout and stderr apart, the last line completed,
# also the output of a worker just before it was killed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 2 sh -c 'echo "to out $RANK"; echo "to err $RANK" >&2; printf "no newline"'
expect_exit 0
sort "$out" >"$work/sorted"
printf '[0] no newline\n[0] to out 0\n[1] no newline\n[1] to out 1\n' | cmp - "$work/sorted" ||
  fail "stdout differs"
expect_stderr '^\[0\] to err 0$'
expect_stderr '^\[1\] to err 1$'
expect_no_stderr 'to out'
expect_no_process_left

run --nproc_per_node 2 sh -c '[ "$RANK" = 1 ] && exec sleep 600
  seq 100000; printf "the very last words"; kill -9 $$'
expect_exit 137
[ "$(grep -c '^\[0\] [0-9]*$' "$out")" = 100000 ] || fail "lines are lost"
expect_stdout '^\[0\] the very last words$'
expect_no_process_left

run echo alone
expect_stdout '^alone$'
expect_no_process_left

run --nproc_per_node 2 --no_prefix echo bare
[ "$(grep -c '^bare$' "$out")" = 2 ] || fail "there is a prefix"
expect_no_process_left

run --nproc_per_node 2 --prefix '${local_rank}/${world_size}: ' echo hello
expect_stdout '^0/2: hello$'
expect_stdout '^1/2: hello$'
expect_no_process_left
