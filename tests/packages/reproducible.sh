#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two builds of a commit, in other folders and from nothing, give the same tarball.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || skip 'this is no repository'

export CCACHE_DISABLE=1
for folder in first second/beside; do
  git clone --quiet "$source" "$work/$folder"
  DDPRUN_PACKAGES=$work/$folder/packages "$work/$folder/scripts/package" tarball >"$work/log" 2>&1 || fail "$(cat "$work/log")"
done
cmp "$work"/first/packages/*.tar.gz "$work"/second/beside/packages/*.tar.gz || fail 'the tarballs differ'
