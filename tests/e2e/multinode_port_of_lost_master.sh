#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node on the master's host that the master has taken in, but given no round, becomes the master when that is
# killed: as it would if it had been started a moment later.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 3 --rdzv_endpoint "$here:29500" "${quick[@]}" sh -c 'echo "rank $RANK"')

on old start serve --nnodes 3 --rdzv_endpoint "$here:29500" "${quick[@]}"
wait_for_event serving
old=$ddprun

on master start "${job[@]}"
on old wait_for_stderr 'waiting'
kill -KILL "$(on old agent_of)" "$old"
on master wait_for_stderr "the port of $here:29500 is free: this node is the master$"
wait_for_stderr 'waiting [1-9][0-9][0-9.]* s for 2 of 3 nodes'  # the lease that the old master gave is over

on second start "${job[@]}"
on third run "${job[@]}"
expect_exit 0
on second finish
expect_exit 0
on master finish
expect_exit 0
expect_stdout 'rank 0$'
on old finish
expect_no_process_left soon
