#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C on all nodes: all end with 130, without another round.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 1:3 --rdzv_endpoint "$here:29500" "${quick[@]}" --max_restarts 3
     --last_call_timeout 600)

for node in a b c; do
  on "$node" start "${job[@]}" sh -c 'exec sleep 600'
done
for node in a b c; do on "$node" wait_for_event round_ready '"node_count":3,'; done
kill -INT "${pids[@]}"
for node in a b c; do
  on "$node" finish
  expect_exit 130
  expect_no_stderr 'restart|failed first'
  sed '1,/signal_received/d' "$events" >"$work/after"
  ! grep round_ready "$work/after" || fail "a round began after Ctrl-C"
done
expect_no_process_left
