#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun of the tarball needs nothing but glibc 2.28: its symbols say so, and it runs a job, reports a failure and
# says what is missing on Debian 11, 12 and 13 with nothing else, and is removed by its list of files. A build in
# another folder gives the same bytes.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

portable_tools
tarball=$(package tarball)
tar -xzf "$tarball" -C "$work"
program=$(echo "$work"/ddprun-*-linux-*/bin/ddprun)
others=$(readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p' | grep -vxE 'ld-linux-x86-64|lib(c|dl|m|pthread)' || true)
[ -z "$others" ] || fail "it needs more than glibc: $others"
needs_glibc_2_28 "$program"

version=$("$program" --version | sed -n '1s/^ddprun //p')
grep -qx "pkgver=$version" "$packages/PKGBUILD" || fail 'the PKGBUILD has another version'
grep -qx "  version: $version" "$packages/recipe.yaml" || fail 'the recipe for conda has another version'

# Runs the recipes' steps with it, without makepkg and rattler-build.
mkdir "$work/arch" "$work/conda"
(cd "$work" && CARCH=$(uname -m) pkgdir=$work/arch bash -euc '. "$1" && package' - "$packages/PKGBUILD") || fail 'PKGBUILD: package() fails'
[ -s "$work/arch/usr/share/licenses/ddprun-bin/LICENSE" ] || fail 'PKGBUILD: there is no licence'
(cd "${program%/bin/ddprun}" && PREFIX=$work/conda sh -euc "$(sed -n 's/^  script: //p' "$packages/recipe.yaml")") || fail 'conda: the script fails'
for folder in arch/usr conda; do
  cmp "$program" "$work/$folder/bin/ddprun" || fail "$folder has another program"
done
sed -n 's/^      - //p' "$packages/recipe.yaml" | PATH=$work/conda/bin:$PATH sh -eu >"$work/out" 2>&1 || fail "conda: $(cat "$work/out")"

mkdir "$work/elsewhere"
tar --create --directory "$source" --exclude './build*' . | tar --extract --directory "$work/elsewhere"
env -u CMAKE_CXX_COMPILER_LAUNCHER DDPRUN_PACKAGES="$work/again" "$work/elsewhere/scripts/package" tarball >"$work/second.txt"
cmp "$tarball" "$(cat "$work/second.txt")" || fail 'two builds make different tarballs'

for suite in bullseye bookworm trixie; do
  clean_root $suite
  files_of_root | grep -v '/$' >"$work/before"
  tar -xzf "$tarball" --strip-components 1 -C "$root/usr/local"
  runs_a_job in_root ddprun
  in_root sh -c 'ddprun --nproc_per_node 2 sh -c "exit 3"; test $? = 3' >"$work/out" 2>&1 || fail "$(cat "$work/out")"
  grep -q 'failed first: exit 3' "$work/out" || fail "it reports no failure: $(cat "$work/out")"
  # If a library that a flag needs is missing, ddprun says so.
  in_root sh -c 'ddprun secret /tmp/secret && ddprun --secret_file /tmp/secret --nnodes 1 true' >"$work/out" 2>&1 ||
    grep -q 'install libssl3' "$work/out" || fail "with a secret: $(cat "$work/out")"
  in_root ddprun doctor >"$work/out" 2>&1 || [ $? = 1 ] || fail "ddprun doctor: $(cat "$work/out")"
  in_root bash -euc '. /usr/local/share/bash-completion/completions/ddprun; complete -p ddprun' || fail 'bash has no completions'
  [ -s "$(echo "$root"/usr/local/share/man/man1/ddprun.1*)" ] || fail 'there is no manual page'
  tar -tzf "$tarball" | grep -v '/$' | cut -d / -f 2- | (cd "$root/usr/local" && xargs rm)
  files_of_root | grep -v '/$' | diff "$work/before" - || fail 'removing what the tarball has left something'
  echo "$suite: passed"
done
