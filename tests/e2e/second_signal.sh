#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A second signal kills the workers at once; the exit code is that of the first one.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start --nproc_per_node 2 --shutdown_timeout 3600 \
  bash -c 'trap "echo no" TERM INT; echo ready; while :; do sleep 600 & wait; done'
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -TERM "$ddprun"
wait_until grep -q '\[0\] no' "$out"
wait_until grep -q '\[1\] no' "$out"
kill -INT "$ddprun"
finish
expect_exit 143
expect_no_process_left
