#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A master that is started again while a stuck process of the old one still has the port says so, and becomes
# the master when the port is free.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}")

on old start serve --nnodes 2 --rdzv_endpoint "$here:29500"
wait_for_event serving
agent=$(agent_of)
kill -STOP "$agent" "$ddprun"

on master start "${job[@]}" sh -c 'echo "rank $RANK"'
wait_for_stderr "waiting .* another ddprun of this host \\(pid $agent\\) has its port: when it is free, this node becomes the master\$"
kill -KILL "$agent" "$(on old eval 'echo "$ddprun"')"
wait_for_stderr "the port of $here:29500 is free: this node is the master$"
on other run "${job[@]}" --rdzv_conf is_host=false sh -c 'echo "rank $RANK"'
expect_exit 0
expect_stdout 'rank 1$'
on master finish
expect_exit 0
expect_stdout 'rank 0$'
on old finish
expect_no_process_left soon
