#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu-check, packed from build folder $1, passes all its checks on the driver and NCCL in folder $2;
# its two ranks share a GPU. Without a GPU it says so. With the packed C library programs run as on a machine
# whose own is older.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LD_LIBRARY_PATH=$2

DDPRUN_BUILD=$1 DDPRUN_PACK_NCCL=no "$root/scripts/gpu-check" --pack "$folder/packed"
size=$(du -s --apparent-size --block-size 1000000 "$folder/packed" | cut -f 1)
[ "$size" -le 12 ] || { echo "$size MB without NCCL, which has 48 of at most 60"; exit 1; }
cp "$1/bin/fake_gpu_train_digits" "$folder/packed/bin/train_digits_cuda"
mv "$folder/packed" "$folder/moved"
FAKE_GPUS=0 "$folder/moved/gpu-check" --short
grep -q '^skipped  everything: there is no GPU here' "$folder/moved/report.txt"

FAKE_GPUS=1 GPU_CHECK_LIBC=packed "$folder/moved/gpu-check" --short
grep -q 'the C library is that of the folder' "$folder/moved/report.txt"
passed=$(grep -c '^ok ' "$folder/moved/report.txt")
[ "$passed" -ge 35 ] || { echo "only $passed checks were made"; exit 1; }
grep -q '^ok       two ranks: one is killed: ' "$folder/moved/report.txt"

# A check that fails is in the report, and in the exit code.
printf '#!/bin/sh\nexit 3\n' >"$folder/moved/bin/device_operations"
if FAKE_GPUS=1 FAKE_NCCL_REFUSE=0:1 "$folder/moved/gpu-check" --short "$folder/other.txt" >/dev/null; then
  echo "checks that fail are passed"
  exit 1
fi
grep -q '^FAIL     every operation and type$' "$folder/other.txt"
grep -q '^ok ' "$folder/other.txt"
