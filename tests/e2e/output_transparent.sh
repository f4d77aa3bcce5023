#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of one worker without a prefix is ddprun's, byte for byte; what cannot be written makes
# ddprun fail, as every program.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

head -c 3000000 /dev/urandom | tr -d '\n' >"$work/bytes"
run cat "$work/bytes"
expect_exit 0
cmp "$work/bytes" "$out" || fail "the output was changed"
expect_no_process_left

file=$out out=/dev/full
run --nproc_per_node 2 echo lost
out=$file
expect_exit 125
expect_stderr '^ddprun: the workers succeeded, but some output is lost: cannot write to stdout: No space'
expect_no_process_left

out=/dev/full
run sh -c 'echo lost; exit 3'
out=$file
expect_exit 3
expect_no_process_left
