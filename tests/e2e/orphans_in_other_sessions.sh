#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Child processes that left their worker's session have ended when ddprun ends, however the worker
# ended.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

leave='setsid sleep 600 & (setsid sleep 600 &) ;'
ignore="(setsid sh -c 'trap \"\" TERM HUP INT; sleep 600; sleep 600' &) ;"

run --nproc_per_node 2 sh -c "$leave exit 0"
expect_exit 0
expect_no_process_left

run --nproc_per_node 2 --shutdown_timeout 0 sh -c "$leave $ignore exit 4"
expect_exit 4
expect_no_process_left

# ddprun itself is killed, and cannot clean up.
start --nproc_per_node 2 --shutdown_timeout 0 sh -c "$leave $ignore echo ready; wait"
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -KILL "$ddprun"
finish
expect_exit 137
expect_no_process_left soon
