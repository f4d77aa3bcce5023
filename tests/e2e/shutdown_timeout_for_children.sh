#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --shutdown_timeout also applies to a worker's child process when the worker itself, a shell, dies
# of the signal.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start --nproc_per_node 1 --shutdown_timeout 3600 sh -c '
  bash -c "trap \"echo saving; echo saved >$0; exit 0\" TERM
           echo ready; while :; do sleep 600 & wait; done"
  echo never' "$work/checkpoint"
wait_until grep -q ready "$out"
kill -TERM "$ddprun"
finish
expect_exit 143
grep -q saved "$work/checkpoint" || fail "the child was killed before it had saved"
expect_no_process_left
