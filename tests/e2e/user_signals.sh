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

# A worker that catches all signals may expect this one, as this bash with a trap for EXIT.
start bash -c 'trap "echo bye" EXIT; trap "exit 0" USR1; echo ready; while :; do sleep 600 & wait; done'
wait_for_stdout ready
kill -USR1 "$ddprun"
finish
expect_exit 0
expect_stdout '^bye$'

# A signal that nobody handles ends nothing.
start --nproc_per_node 2 sh -c 'echo ready; until [ -e "$0" ]; do sleep 0.1; done' "$work/enough"
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -USR1 "$ddprun"
wait_for_stderr 'no worker here handles SIGUSR1, so none gets it$'
touch "$work/enough"
finish
expect_exit 0
expect_no_process_left
