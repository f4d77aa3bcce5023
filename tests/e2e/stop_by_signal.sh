#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal to ddprun reaches every worker unchanged and becomes 128 + its number.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

say_and_end='for s in HUP INT QUIT TERM; do trap "echo got $s; exit 0" $s; done
             echo ready; while :; do sleep 600 & wait; done'
for signal in HUP:129 INT:130 QUIT:131 TERM:143; do
  start --nproc_per_node 2 bash -c "$say_and_end"
  wait_until grep -q '\[0\] ready' "$out"
  wait_until grep -q '\[1\] ready' "$out"
  kill -s "${signal%:*}" "$ddprun"
  finish
  expect_exit "${signal#*:}"
  expect_stdout "^\[0\] got ${signal%:*}$"
  expect_stdout "^\[1\] got ${signal%:*}$"
  expect_stderr "stopping 2 workers \(SIG${signal%:*}\)"
  expect_no_stderr 'failed'
  expect_no_process_left
done
