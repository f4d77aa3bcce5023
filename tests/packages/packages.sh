# SPDX-License-Identifier: Apache-2.0
# The tests of packages source this:
#
#   package KIND [ARCH]...       scripts/package, into $packages
#   portable_tools               skips the test if the compiler of the tarball and the wheel cannot be installed
#   clean_root SUITE PACKAGE...  makes $root, a minimal system of that suite of Debian with these packages
#   in_root COMMAND...           runs there as root, in a process namespace of its own; pip trusts whom PIP_CERT names
#   runs_a_job COMMAND...        the command is ddprun's: two workers say their ranks
#   needs_glibc_2_28 PROGRAM     fails if it needs a later one
#   files_of_root                all files of $root with their sizes, but logs and caches, and the
#                                groups of users, of which a library beneath Gloo makes one
#
# The mirror is that of the machine's own apt. DDPRUN_BUILD is the Release build.
# shellcheck shell=bash
set -euo pipefail
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
work=$(mktemp -d)
export DDPRUN_PACKAGES=$work/packages
packages=$DDPRUN_PACKAGES
trap 'rm -rf --one-file-system "$work"' EXIT

skip() {
  echo "skipped: $*"
  exit 77
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || skip 'only root can make a root of another system'
for tool in mmdebstrap unshare; do
  command -v $tool >/dev/null || skip "there is no $tool: scripts/setup --interop installs it"
done
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/*$') ||
  skip 'apt knows no mirror of Debian'

package() {
  "$source/scripts/package" "$@"
}

portable_tools() {
  "$source/scripts/release/package-env" >"$work/log" 2>&1 ||
    skip "there is no Zig, and PyPI has none for this machine: $(tail -n 1 "$work/log")"
}

clean_root() {
  local packages=("${@:2}")
  root=$work/$1
  mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt/lists ${packages:+--include="$(IFS=, && echo "${packages[*]}")"} \
    "$1" "$root" "$mirror" 2>"$work/log" || { cat "$work/log" >&2 && skip "no root of $1 could be made from $mirror"; }
  cp /etc/resolv.conf "$root/etc/"
  [ -z "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$root/etc/pip_cert.crt"
}

in_root() {
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${PIP_CERT:+PIP_CERT=/etc/pip_cert.crt} unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" "$@"
}

runs_a_job() {
  local output
  output=$("$@" --nproc_per_node 2 sh -c 'echo "$RANK"' 2>"$work/err" | sort) || fail "$*: $(cat "$work/err")"
  [ "$output" = $'[0] 0\n[1] 1' ] || fail "$* printed: $output, and $(cat "$work/err")"
}

needs_glibc_2_28() {
  local newest
  newest=$(readelf --dyn-syms -W "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || fail "it needs $newest"
}

files_of_root() {
  find "$root" -xdev \( -path "$root/proc" -o -path "$root/var/log" -o -path "$root/var/cache" \
    -o -path "$root/var/lib/dpkg" -o -path "$root/var/lib/apt" -o -path "$root/tmp" -o -path "$root/run" \
    -o -path "$root/etc/group*" -o -path "$root/etc/gshadow*" \) -prune \
    -o ! -type d -printf '%P %s\n' -o -printf '%P/\n' | sort
}
