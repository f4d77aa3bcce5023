#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that was left behind by a finished worker is stopped before ddprun ends, and what it
# inherited (the output pipe) does not keep ddprun waiting.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 2 sh -c 'sleep 600 & nohup sleep 600 & echo done'
expect_exit 0
expect_stdout '^\[0\] done$'
expect_stdout '^\[1\] done$'
expect_no_process_left
