#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/multinode: N nodes of one job on this machine, one exit code, signals for all of them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
multinode=$(dirname "${BASH_SOURCE[0]}")/../../scripts/multinode
command_prefix[nodes]="env DDPRUN=$DDPRUN $multinode 3 --nproc_per_node"
on nodes
DDPRUN=2  # what `start` puts between these words and its own

run sh -c 'echo "$RANK of $WORLD_SIZE on node $GROUP_RANK"'
expect_exit 0
expect_stdout '^\[0\] 0 of 6 on node 0$'
expect_stdout '^\[5\] 5 of 6 on node 2$'
expect_no_process_left

run sh -c '[ "$RANK" = 4 ] && exit 9; exec sleep 600'
expect_exit 9
[ "$(grep -c 'rank 4 failed first' "$err")" = 3 ] || fail "not one report a node"
expect_no_process_left

start sh -c 'echo here; exec sleep 600'
all_are_here() { [ "$(grep -c here "$out")" = 6 ]; }
wait_until all_are_here
kill -INT "$ddprun"
finish
expect_exit 130
expect_no_stderr 'restart|round 1'
expect_no_process_left
