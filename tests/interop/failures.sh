#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The failure of a Python worker is reported with its exit code and the end of its stderr.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/failures.py

fails() {  # fails CODE HOW [CODE_IN_TORCHRUN_S_REPORT]
  if [ -n "${3:-}" ]; then
    under torchrun --nproc_per_node 2 "$program" "$2"
    expect_exit 1
    expect_stderr "exitcode *: $3 "
  fi
  under ddprun --nproc_per_node 2 "$program" "$2"
  expect_exit "$1"
  expect_no_process_left
}

fails 1 traceback 1
expect_stderr '^ddprun: rank 1 failed first: exit 1 '
expect_stderr '^          ValueError: not the answer: 41$'
expect_stderr '^        rank 0 was stopped by ddprun \(SIGTERM'

# An exception that @record wrote is the cause, and is not repeated in the end of stderr.
fails 1 record 1
expect_stderr '^ddprun: rank 1 failed first: exit 1 .*: ValueError: not the answer: 41$'
expect_stderr '^ +File ".*/failures\.py", line [0-9]+, in deep_thought$'
[ "$(grep -c 'not the answer: 41' <(grep -v '^\[1\]' "$err"))" = 1 ] || fail "reported twice"

fails 3 exit
expect_stderr '^ddprun: rank 1 failed first: exit 3 '

fails 137 kill -9
expect_stderr '^ddprun: rank 1 failed first: killed by SIGKILL '

fails 1 import
expect_stderr "^          ModuleNotFoundError: No module named 'no_such_module'$"

# A worker that ignores SIGTERM delays the end by --shutdown_timeout at most, whether another one fails
# (torchrun always waits 30 s then) or the job is stopped.
under ddprun --nproc_per_node 2 --shutdown_timeout 1 "$program" exit "$work/ready"
expect_exit 3
expect_stderr '^ddprun: rank 0 did not stop within 1 s \(--shutdown_timeout\): killed$'
expect_no_process_left

rm "$work/ready"
start --nproc_per_node 2 --shutdown_timeout 1 "$program" wait "$work/ready"
wait_for_stdout waiting
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stderr 'rank 0 did not stop within 1 s'
expect_no_process_left

PYTHON_EXEC=$work/no/python under ddprun --nproc_per_node 2 "$program" exit
expect_exit 127
[ "$(wc -l <"$err")" = 1 ] || fail "not one line"
expect_stderr "^ddprun: PYTHON_EXEC: cannot run $work/no/python: no such file$"
expect_no_process_left
