#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check/tables accepts tables between `clang-format off` and `on`, and names the rows of others.
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/../scripts/check/tables
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

{
  echo '// clang-format off'
  echo '//  event | forming | active'
  echo '// clang-format on'
  echo '// a || b, and x | y'
  echo 'int both = a | b | c;  // | is "or"'
} >"$tree/good.h"
"$check" "$tree/good.h"

for row in '//  event | forming | active' '/// | event | forming |' '  // | join, member' \
  '//  ------+--------' '/// forming ──▶ active'; do
  echo "$row" >"$tree/bad.h"
  if said=$("$check" "$tree/good.h" "$tree/bad.h") || [[ $said != *"bad.h:1: a row of a table"* ]]; then
    echo "'$row' is not refused: ${said:-nothing was printed}"
    exit 1
  fi
done
