# SPDX-License-Identifier: Apache-2.0
# Tests with a disk that stalls source this instead of common.sh:
#
#   disk                    makes a file system at $disk, for this test alone
#   freeze  thaw            who writes to it waits, uninterruptibly, until it is thawed
#
# Skipped where none can be made, as by anyone but root.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

disk=$work/disk

disk() {
  [ "$(id -u)" = 0 ] || skip "a file system that can be frozen takes root"
  for tool in mkfs.ext4 fsfreeze; do command -v $tool >/dev/null || skip "there is no $tool"; done
  mkdir "$disk"
  truncate -s 32M "$work/image"
  mkfs.ext4 -q "$work/image"
  mount -o loop "$work/image" "$disk" 2>"$work/no_mount" || skip "no disk: $(cat "$work/no_mount")"
  at_exit+=(remove_disk)
}

remove_disk() {
  thaw 2>/dev/null || true
  umount -l "$disk"
}

freeze() {
  fsfreeze -f "$disk"
}

thaw() {
  fsfreeze -u "$disk"
}
