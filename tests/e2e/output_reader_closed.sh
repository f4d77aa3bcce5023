#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When the reader of the output closes its pipe (| head), job and workers go on.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

code=0
env "$mark" "$DDPRUN" --nproc_per_node 2 --events "$events" sh -c 'seq 100000; exit 0' 2>"$err" |
  head -1 >"$out" || true
wait_for_event job_ended '"exit_code":0'
expect_stdout '^\[[01]\] 1$'
expect_no_process_left soon
