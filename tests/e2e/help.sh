#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --help and --version go to stdout; a failed write is an error.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --help
expect_exit 0
expect_stdout '^Usage: ddprun '
expect_stdout '--nproc_per_node'
[ ! -s "$err" ] || fail "something is on stderr"
expect_no_process_left

run -h
expect_exit 0
expect_stdout '^Most used:$'
for command in ls status watch stacks logs stop; do
  env "$mark" "$DDPRUN" $command -h >"$out" || fail "ddprun $command -h fails"
  expect_stdout '^Usage: ddprun ls$'
done
expect_no_process_left

for words in --help --version; do
  out=/dev/full
  run "$words"
  expect_exit 125
  expect_stderr '^ddprun: cannot write to stdout: No space left on device$'
  expect_no_process_left
done
