#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shared memory of ranks on AArch64: compiled by Debian's cross compiler, and run by qemu. That runs the code for
# the other processor, and not its weaker order of accesses: for the order see shm_rounds.pml and layout.h.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
compiler=$(command -v aarch64-linux-gnu-g++) || { echo "there is no aarch64-linux-gnu-g++" && exit 77; }
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || { echo "there is no qemu-aarch64" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$root"

"$compiler" -std=c++20 -O1 -static -Wall -Wextra -Werror -I. -Icollectives/include -o "$folder/shm_order" \
  tests/collectives/backends/shm_order.cc collectives/backends/shm/{arena,copy,heap,ring,rounds,zero_copy}.cc \
  collectives/call/{call,reduction,route}.cc
"$qemu" "$folder/shm_order" 3 20
