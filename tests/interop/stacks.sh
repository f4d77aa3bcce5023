#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun stacks shows the lines of Python of workers with PyTorch and with JAX, those in a collective apart from the one
# that is elsewhere, and with --native the calls of C and C++ below them.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

on ddprun start --nproc_per_node 3 "$interop/stacks.py"
wait_for_stdout '^\[1\] loading$'
shows() { "$DDPRUN" stacks "$ddprun" ${2:+"$2"} >"$work/shown" && grep -qE "$1" "$work/shown"; }
wait_until shows '^  all_reduce \(distributed_c10d\.py:[0-9]+\)$'
wait_until shows '^ranks 0, 2:$'
wait_until shows '^rank 1:$'
wait_until shows '^  load_batch \(stacks\.py:[0-9]+\)$'
grep -qE '^<module> \(stacks\.py:[0-9]+\)$' "$work/shown" || fail "$(cat "$work/shown")"
wait_until shows '^  .*(pause|sigsuspend).*\(.*\)$' --native
kill -TERM "$ddprun"
finish
expect_exit 143

on jax true
JAX_PLATFORMS=cpu start --store worker --nproc_per_node 2 "$interop/stacks_jax.py"
wait_for_stdout '^\[1\] loading$'
wait_until shows '^rank 1:$'
wait_until shows '^  load_batch \(stacks_jax\.py:[0-9]+\)$'
wait_until shows '^rank 0:$'
wait_until shows '^  train \(stacks_jax\.py:[0-9]+\)$'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
