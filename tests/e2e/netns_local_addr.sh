#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --local_addr is the address that a node connects from.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2 4
ip -n "$net-2" addr add 10.9.0.22/24 dev eth0

on 1 start --nnodes 2 --rdzv_endpoint node1 "${quick[@]}" sh -c 'echo "rank $RANK"'
wait_for_event job_started
on 2 run --nnodes 3 --rdzv_endpoint node1 "${quick[@]}" --local_addr 10.9.0.22 sh -c 'echo "rank $RANK"'
expect_exit 2
on 1 expect_stderr 'refused node2 \(10.9.0.22\): its job has --nnodes 2, this node was started with 3'
on 2 run --nnodes 2 --rdzv_endpoint node1 "${quick[@]}" --local_addr 10.9.0.22 sh -c 'echo "rank $RANK"'
expect_exit 0
on 1 finish
expect_exit 0
expect_no_process_left
