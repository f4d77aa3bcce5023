#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The host of the rendezvous is cut off from all others for longer than the lease: all workers are
# killed, and the next round begins when the link is back.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 3
job=(--nnodes 3 --rdzv_endpoint node1:29500 "${quick[@]}")

for host in 1 2 3; do on "$host" start "${job[@]}" bash -c "$stamper" "$work"; done
for host in 1 2 3; do on "$host" wait_for_event round_ready '"round":0,'; done
unplug 1
for host in 2 3; do on "$host" wait_for_event worker_ended '"signal":"SIGKILL"'; done
on 1 wait_for_event worker_ended '"signal":"SIGTERM"'
wait_for_stderr 'waiting .* for [12] of 3 nodes: have node 0 \(node1, 1 worker\)'
plug 1
# The master may readmit one node before the other one is lost.
three_again() { sed '1,/worker_ended/d' "$events" | grep -q '"round_ready".*"node_count":3,'; }
for host in 1 2 3; do on "$host"; wait_until three_again; done
: >"$work/finish"
for host in 1 2 3; do
  on "$host" finish
  expect_exit 0
  expect_no_stderr 'restart [0-9]'
done
expect_no_two_rounds
expect_no_process_left
