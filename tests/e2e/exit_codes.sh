#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The exit code is that of the root cause: 0, the worker's code, or 128 + its signal.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 2 true
expect_exit 0
expect_no_process_left

run --nproc_per_node 2 sh -c 'exit 3'
expect_exit 3
expect_no_process_left

run sh -c 'kill -9 $$'
expect_exit 137
expect_stderr 'rank 0 .*SIGKILL'
expect_no_process_left

run sh -c 'kill -TERM $$'
expect_exit 143
expect_no_process_left
