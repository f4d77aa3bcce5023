#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The agent itself is killed with SIGKILL: the guardian leaves no process behind and reports it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start --nproc_per_node 2 sh -c '
  (setsid sh -c "trap \"\" TERM; sleep 600; sleep 600" &)
  echo ready; exec sleep 600'
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -KILL "$(pgrep -P "$ddprun")"
finish
expect_exit 137
expect_stderr "agent was killed by SIGKILL"
expect_no_process_left
