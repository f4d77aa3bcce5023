#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGUSR1 and SIGUSR2 are forwarded to each worker and stop nothing.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start --nproc_per_node 2 bash -c '
  trap "echo asked to save" USR1; trap "echo enough; exit 0" USR2
  echo ready; while :; do sleep 600 & wait; done'
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -USR1 "$ddprun"
wait_until grep -q '\[0\] asked to save' "$out"
wait_until grep -q '\[1\] asked to save' "$out"
kill -USR2 "$ddprun"
finish
expect_exit 0
expect_stdout '^\[1\] enough$'
expect_no_process_left
