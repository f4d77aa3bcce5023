#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C++ program that trains a module of libtorch with ddp/torch.h, on 1, 2 and 4 ranks, has the losses of
# PyTorch's own DistributedDataParallel in Python: also with no_sync, parameters that are not used, and
# ranks that have different numbers of batches.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$DDPRUN_BIN/torch_training
[ -x "$program" ] || skip "no torch_training: it is in Release builds, if scripts/setup --interop was before"
digits=$interop/../../examples/data/digits.csv

under ddprun --nproc_per_node 4 "$interop/torch_training.py" "$digits"
expect_exit 0
sorted_stdout >"$work/wanted"
under ddprun --nproc_per_node 4 "$program" "$digits"
expect_exit 0
sorted_stdout >"$work/got"
expect_no_process_left

# Each line ends with a number.
[ "$(wc -l <"$work/wanted")" = 245 ] || fail "PyTorch's lines: $(cat "$work/wanted")"
paste -d '|' "$work/wanted" "$work/got" | awk -F '|' '
  { n = split($1, wanted, " "); m = split($2, got, " "); same = n == m
    for (i = 1; i < n; ++i) same = same && wanted[i] == got[i]
    difference = wanted[n] - got[m]; if (difference < 0) difference = -difference
    if (!same || difference > 1e-6 * (1 + wanted[n])) { print; wrong = 1 } }
  END { exit wrong }' >"$work/difference" || fail "PyTorch | ddp: $(cat "$work/difference")"
