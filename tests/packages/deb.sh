#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of the Release build: the same bytes each time, without errors for lintian; on a system with
# nothing else apt installs them, beside Open MPI and MPICH, too, ddprun and a program of the library run, and removing
# them leaves nothing. Then the same root gets what the Dockerfile does.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

package deb >"$work/first.txt"
mv "$packages" "$work/first"
package deb >"$work/second.txt"
diff -r "$work/first" "$packages" || fail 'two packages of one build differ'
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error "$packages"/*.deb >"$work/lintian" 2>&1 || fail "lintian: $(cat "$work/lintian")"
fi

# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${ID} ${VERSION_CODENAME:-}")
[ "${suite% *}" = debian ] || skip 'packages are tried on Debian, for the release that they are built on'
clean_root "${suite#* }"
files_of_root >"$work/before"
library=$(cd "$packages" && printf "%s\n" libddp[0-9]* | sed -n "s/^\(libddp[0-9.]*\)_.*/\1/p")
cp "$packages"/ddprun_*.deb "$packages/$library"_*.deb "$DDPRUN_BUILD/bin/allreduce_hello" "$root/tmp/"
in_root sh -c 'apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends /tmp/*.deb' >"$work/apt" 2>&1 ||
  fail "apt does not install the packages: $(cat "$work/apt")"
runs_a_job in_root ddprun
in_root ddprun --version | grep -q '^ddprun [0-9.]*$' || fail 'ddprun says no version'
for file in man/man1/ddprun.1.gz doc/ddprun/copyright "doc/$library/copyright" bash-completion/completions/ddprun; do
  [ -s "$root/usr/share/$file" ] || fail "there is no $file"
done
in_root ddprun --nproc_per_node 2 /tmp/allreduce_hello >"$work/hello" 2>&1 || fail "with libddp: $(cat "$work/hello")"
in_root apt-get --simulate install mpich openmpi-bin >"$work/apt" 2>&1 || fail "beside MPI: $(cat "$work/apt")"
! grep -q '^Remv' "$work/apt" || fail "MPI's packages remove ours: $(grep '^Remv' "$work/apt")"
in_root apt-get -qq -o Dpkg::Use-Pty=0 purge --auto-remove ddprun "$library" >"$work/apt" 2>&1 ||
  fail "apt does not remove the packages: $(cat "$work/apt")"
files_of_root | diff "$work/before" - || fail 'removing the packages left something'

file=$source/scripts/release/docker/Dockerfile
grep -qx 'ENTRYPOINT \["ddprun"\]' "$file" && grep -qx 'COPY ddprun_\*.deb /tmp/' "$file" || fail 'the Dockerfile is another one'
cp "$packages"/ddprun_*.deb "$root/tmp/"
in_root sh -c "$(sed -n '/^RUN /,/[^\\]$/p' "$file" | sed 's/^RUN //; s/\\$//' | tr '\n' ' ')" >"$work/run" 2>&1 ||
  fail "the Dockerfile's RUN: $(tail -n 20 "$work/run")"
runs_a_job in_root ddprun
in_root sh -c 'ddprun secret /tmp/secret && ddprun --secret_file /tmp/secret true' || fail 'the image has no TLS'
