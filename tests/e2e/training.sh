#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real training under ddprun: 1, 2 and 4 workers end with the same loss, also after a crash and a
# restart, and the model is accurate on held-out digits.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
train=$DDPRUN_BIN/train_digits

last_loss() { sed -n 's|^.*epoch 10/10 *loss \([0-9.]*\) .*$|\1|p' "$out"; }
last_accuracy() { sed -n 's|^.*epoch 10/10 .*accuracy \([0-9.]*\).*$|\1|p' "$out"; }

same_loss() {  # to 1e-4 relative
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 1e-4 * a) }'
}

run --nproc_per_node 1 "$train"
expect_exit 0
alone=$(last_loss)
[ -n "$alone" ] || fail "no loss of the last epoch"
awk -v a="$(last_accuracy)" 'BEGIN { exit !(a >= 0.95) }' || fail "accuracy $(last_accuracy)"
expect_no_process_left

for workers in 2 4; do
  run --nproc_per_node "$workers" "$train"
  expect_exit 0
  same_loss "$alone" "$(last_loss)" || fail "$workers workers: $(last_loss), one: $alone"
  expect_no_process_left
done

run --nproc_per_node 4 --max_restarts 1 "$train" --checkpoint "$work/digits.ckpt" --crash-at 3:2
expect_exit 0
expect_stderr 'rank 2 failed first'
expect_stderr 'restart 1 of 1'
same_loss "$alone" "$(last_loss)" || fail "crashed and healed: $(last_loss), uncrashed: $alone"
[ "$(grep -c 'epoch 1/10' "$out")" = 1 ] || fail "it started from epoch 1 instead of its checkpoint"
expect_no_process_left

run --nproc_per_node 2 --store worker "$train"
expect_exit 0
same_loss "$alone" "$(last_loss)" || fail "store of rank 0: $(last_loss), of the agent: $alone"
expect_no_process_left
