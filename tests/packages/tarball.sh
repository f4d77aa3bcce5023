#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun of the tarball needs nothing but glibc 2.28: its symbols say so, and it runs a job, reports a failure and
# says what is missing on Debian 11, 12 and 13 with nothing else.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

tarball=$(package tarball)
tar -xzf "$tarball" -C "$work"
program=$(echo "$work"/ddprun-*-linux-*/bin/ddprun)
needed=$(readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p' | sort | tr '\n' ' ')
[ "$needed" = "ld-linux-x86-64 libc libdl libm libpthread " ] || fail "it needs $needed"
needs_glibc_2_28 "$program"

version=$("$program" --version | sed -n '1s/^ddprun //p')
grep -qx "pkgver=$version" "$packages/PKGBUILD" || fail 'the PKGBUILD has another version'
grep -qx "  version: $version" "$packages/recipe.yaml" || fail 'the recipe for conda has another version'

for suite in bullseye bookworm trixie; do
  clean_root $suite
  tar -xzf "$tarball" --strip-components 1 -C "$root/usr/local"
  runs_a_job in_root ddprun
  in_root sh -c 'ddprun --nproc_per_node 2 sh -c "exit 3"; test $? = 3' >"$work/out" 2>&1 || fail "$(cat "$work/out")"
  grep -q 'failed first: exit 3' "$work/out" || fail "it reports no failure: $(cat "$work/out")"
  # What is loaded when a flag needs it: where it is missing, that is said.
  in_root sh -c 'ddprun secret /tmp/secret && ddprun --secret_file /tmp/secret --nnodes 1 true' >"$work/out" 2>&1 ||
    grep -q 'install libssl3' "$work/out" || fail "with a secret: $(cat "$work/out")"
  in_root ddprun doctor >"$work/out" 2>&1 || [ $? = 1 ] || fail "ddprun doctor: $(cat "$work/out")"
  echo "$suite: passed"
done
