#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Messages between ranks of one node on a kernel whose transparent huge pages are "always", as many are: the file that
# says so is another one in a mount namespace. Usage: huge_pages_test.sh TEST_COLLECTIVES
set -euo pipefail
enabled=/sys/kernel/mm/transparent_hugepage/enabled
[ -e "$enabled" ] || { echo "skipped: no transparent huge pages here" && exit 77; }
always=$(mktemp)
trap 'rm "$always"' EXIT
echo '[always] madvise never' >"$always"
unshare -m mount --bind "$always" "$enabled" 2>/dev/null || { echo "skipped: this user may not mount" && exit 77; }
names='ranks read long messages in place in all memory*,a rank that may not read*,messages go both ways at once*'
unshare -m bash -c 'mount --bind "$1" "$2" && "$3" "$4"' - "$always" "$enabled" "$1" "$names"
