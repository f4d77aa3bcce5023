#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tarball for AArch64 needs glibc 2.28, and under qemu its ddprun plans a job, runs one and reports a failure.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
libraries=/usr/aarch64-linux-gnu
command -v qemu-aarch64-static >/dev/null || skip 'there is no qemu-aarch64-static (Debian: qemu-user-static)'
[ -e $libraries/lib/ld-linux-aarch64.so.1 ] || skip "there is no C library for AArch64 (Debian: libc6-arm64-cross)"

portable_tools
tarball=$(package tarball aarch64)
tar -xzf "$tarball" -C "$work"
program=$(echo "$work"/ddprun-*-linux-aarch64/bin/ddprun)
readelf -hW "$program" | grep -q 'Machine: *AArch64' || fail 'it is not for AArch64'
needs_glibc_2_28 "$program"
emulated=(qemu-aarch64-static -L $libraries "$program")
"${emulated[@]}" --version | grep -q '^ddprun [0-9.]*$' || fail 'it says no version'
"${emulated[@]}" --nproc_per_node 2 --dry_run true | grep -q '^rank 1: RANK=1 LOCAL_RANK=1 ' || fail 'it plans no job'
runs_a_job "${emulated[@]}"
code=0
"${emulated[@]}" --nproc_per_node 2 sh -c '[ $RANK = 0 ] || exit 3; exec sleep 600' 2>"$work/err" || code=$?
[ $code = 3 ] || fail "exit code $code: $(cat "$work/err")"
grep -q 'rank 1 failed first: exit 3' "$work/err" || fail "it reports no failure: $(cat "$work/err")"
