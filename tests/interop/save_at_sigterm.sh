#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program of docs/failures.md saves a checkpoint at SIGTERM: with one node, and with two of which one is preempted.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
DDPRUN=$real_ddprun

awk '/^## / { on = 0 } /^## Saving at a preemption$/ { on = 1 } on && (/^    / || /^$/) { sub(/^    /, ""); print }' \
  "$interop/../../docs/failures.md" >"$work/program.py"
grep -q '^dist.destroy_process_group()$' "$work/program.py" || fail 'the page has no program'
# A step says that it is done.
sed 's/# a step$/; print("a step", flush=True)/' "$work/program.py" >"$work/train.py"
cd "$work"

start --nproc_per_node 2 train.py
for rank in 0 1; do wait_for_stdout "^\[$rank\] a step"; done
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stderr 'ranks 0, 1 ended with exit code 0$'
"$python" -c 'import torch; assert set(torch.load("checkpoint.pt")) == {"module.weight", "module.bias"}' ||
  fail 'there is no checkpoint'
expect_no_process_left

rm checkpoint.pt
nodes=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" train.py)
on a start "${nodes[@]}"
on b start "${nodes[@]}"
for node in a b; do on $node wait_for_stdout 'a step'; done
kill -TERM "$(on b eval 'echo $ddprun')"
on b finish
on b expect_exit 143
[ -s checkpoint.pt ] || fail 'no checkpoint after the preemption of a node'
kill -TERM "$(on a eval 'echo $ddprun')"
on a finish
on a expect_exit 143
expect_no_process_left
