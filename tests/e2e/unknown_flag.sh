#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An unknown flag is refused in one line that suggests the nearest real one; the program's are not parsed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_nod 4 true
expect_exit 2
expect_stderr '^ddprun: .*--nproc_per_nod\b.*--nproc_per_node'
[ "$(wc -l <"$err")" = 1 ] || fail "more than one line"
expect_no_process_left

run --nproc-per-node=2 echo --nproc_per_nod 4
expect_exit 0
expect_stdout '^\[1\] --nproc_per_nod 4$'
expect_no_process_left

run -- sh -c 'echo "$1"' sh --help
expect_exit 0
expect_stdout '^--help$'
expect_no_process_left
