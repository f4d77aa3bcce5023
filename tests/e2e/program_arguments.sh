#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program's own flags are not parsed, and -- ends ddprun's.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc-per_node=1 printf '<%s>\n' --nproc_per_node 4 --log x --help -r3 ''
expect_exit 0
[ "$(tr '\n' ' ' <"$out")" = '<--nproc_per_node> <4> <--log> <x> <--help> <-r3> <> ' ] ||
  fail "the arguments have changed"
expect_no_process_left

run -- printf '<%s>\n' --version
expect_stdout '^<--version>$'
expect_no_process_left
