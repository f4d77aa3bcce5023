#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that a finished worker left behind is named and stopped before ddprun ends, and the output pipe that
# it inherited does not delay ddprun.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 2 sh -c 'sleep 600 & nohup sleep 600 & echo done'
expect_exit 0
expect_stdout '^\[0\] done$'
expect_stdout '^\[1\] done$'
left="pid [0-9]+ \(sleep\)(, pid [0-9]+ \(sleep\)){3}"
expect_stderr "^ddprun: stopping processes the workers left behind \(SIGTERM, and SIGKILL after 30 s, --shutdown_timeout\): $left$"
expect_no_process_left
