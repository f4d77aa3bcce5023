#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After a failure, a worker that ignores SIGTERM is killed after --shutdown_timeout, and ddprun names
# its rank.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 3 --shutdown_timeout 0.3 bash -c '
  [ "$RANK" = 1 ] && trap "" TERM
  echo ready >"$0.$RANK"
  if [ "$RANK" = 0 ]; then
    until [ -e "$0.1" ] && [ -e "$0.2" ]; do sleep 0.01; done
    exit 5
  fi
  while :; do sleep 600 & wait; done' "$work/ready"
expect_exit 5
expect_stderr 'rank 1 did not stop within 300 ms \(--shutdown_timeout\): killed'
expect_stderr 'ranks 1, 2 were stopped by ddprun \(SIGTERM'
expect_no_process_left
