#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On another release of Debian with nothing else, 13 beside 12: scripts/quickstart installs what is missing, builds and
# trains; two builds in two folders make the same packages with one start order, of which lintian has no errors, and
# apt installs them on a system without the tools of the build. It compiles ddprun and the library twice, without a cache.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${ID} ${VERSION_CODENAME:-}")
[ "${suite% *}" = debian ] || skip 'packages are tried on Debian'
other=trixie
[ "$suite" != 'debian trixie' ] || other=bookworm

clean_root $other lintian
for folder in src other/place; do
  mkdir -p "$root/$folder"
  tar --create --directory "$source" --exclude './build*' --exclude ./.git . | tar --extract --directory "$root/$folder"
done
in_root sh -c 'cd /src && exec scripts/quickstart' >"$work/log" 2>&1 || fail "quickstart: $(tail -n 30 "$work/log")"
grep -q '^\[0\] epoch 10/10 .* accuracy 0.9' "$work/log" || fail "it does not train: $(tail -n 5 "$work/log")"

in_root sh -c 'cd /src && scripts/package deb && cmake --build --preset release --target allreduce_hello &&
               cd /other/place && DDPRUN_START_ORDER=/src/build/packages/start_order.ld scripts/package deb' >"$work/log" 2>&1 ||
  fail "packages: $(tail -n 30 "$work/log")"
diff -r "$root/src/build/packages" "$root/other/place/build/packages" || fail 'two builds make different packages'
readelf -SW "$root/src/build/bin/ddprun" | grep -qF .text.start || fail 'the functions of a start do not lie together'
in_root sh -c 'lintian --allow-root --fail-on error /src/build/packages/*.deb' >"$work/log" 2>&1 || fail "lintian: $(cat "$work/log")"
mv "$root" "$work/built"

clean_root $other
cp "$work/built"/src/build/packages/{ddprun,libddp[0-9.]*}_*.deb "$work/built/src/build/bin/allreduce_hello" "$root/tmp/"
in_root sh -c 'apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends /tmp/*.deb' >"$work/apt" 2>&1 ||
  fail "apt does not install the packages: $(cat "$work/apt")"
runs_a_job in_root ddprun
in_root ddprun --nproc_per_node 2 /tmp/allreduce_hello >"$work/hello" 2>&1 || fail "with libddp: $(cat "$work/hello")"
