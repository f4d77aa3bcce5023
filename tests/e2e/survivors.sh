#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Children that left their worker's session are gone when ddprun is, whatever became of the worker.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

hide='setsid sleep 600 & (setsid sh -c "trap \"\" TERM HUP; sleep 600; sleep 600" &) ;'

run --nproc_per_node 2 sh -c "$hide exit 0"
expect_exit 0
expect_no_process_left

run --nproc_per_node 2 --shutdown_timeout 0 sh -c "$hide exit 4"
expect_exit 4
expect_no_process_left

start --nproc_per_node 2 sh -c "$hide echo ready; wait"
wait_until grep -q '\[1\] ready' "$out"
kill -KILL "$ddprun"
finish
expect_exit 137
expect_no_process_left soon
