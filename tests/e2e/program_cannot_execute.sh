#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that cannot be executed is reported in one line, before anything is started.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

one_line() { [ "$(wc -l <"$err")" = 1 ] || fail "more than one line"; }

run --nproc_per_node 2 "$work/missing" --lr 1
expect_exit 127
expect_stderr "^ddprun: .*$work/missing"
one_line
expect_no_process_left

run no-such-program-anywhere
expect_exit 127
one_line
expect_no_process_left

echo 'echo no' >"$work/not_executable"
run "$work/not_executable"
expect_exit 126
expect_stderr "^ddprun: .*$work/not_executable"
one_line
expect_no_process_left

echo '#!/no/such/interpreter' >"$work/script"
chmod +x "$work/script"
run "$work/script"
expect_exit 126
expect_stderr "^ddprun: .*$work/script.*interpreter"
one_line
expect_no_process_left

run "$work"  # a folder
expect_exit 126
one_line
expect_no_process_left
