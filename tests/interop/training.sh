#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training with DistributedDataParallel ends with the same loss on 1 and 4 workers, on two nodes of
# different size, and on 2 workers of torchrun.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/train.py

loss() { sed -n 's/^.*loss \([0-9.]*\)$/\1/p' "$out"; }
wanted=''
expect_loss() {
  expect_exit 0
  wanted=${wanted:-$(loss)}
  awk -v a="$wanted" -v b="$(loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= 1e-6 * a * a) }' ||
    fail "loss $(loss), before $wanted"
}

for launcher in $(reference_launcher); do
  under "$launcher" --nproc_per_node 2 "$program"
  expect_loss
done
for workers in 1 4; do
  under ddprun --nproc_per_node "$workers" "$program"
  expect_loss
  expect_no_process_left
done

DDPRUN=$real_ddprun
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "$program")
on big start --nproc_per_node 2 "${job[@]}"
on small start --nproc_per_node 1 "${job[@]}"
on small finish
expect_exit 0
on big finish
expect_exit 0
on big
[ -n "$(loss)" ] || on small
expect_loss
expect_no_process_left
