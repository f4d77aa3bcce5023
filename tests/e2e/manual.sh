#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages are there for each command, the build has written them, and man has nothing to complain about.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

built=$DDPRUN_BIN/../share/man/man1
env "$mark" "$DDPRUN" help >"$out" || fail "ddprun help fails"
commands=$(sed -n '/^Commands:/,/^$/s/^    \([a-z]*\) .*/\1/p' "$out" | grep -v '^help$')
[ "$(wc -w <<<"$commands")" -gt 9 ] || fail "ddprun help lists no commands"

mkdir "$work/man1"
pages=(ddprun)
for command in $commands; do pages+=("ddprun-$command"); done
for page in "${pages[@]}"; do
  file=$work/man1/$page.1
  env "$mark" "$DDPRUN" help --man "$page" >"$file" || fail "there is no page $page"
  if [ -e "$built/ddprun.1" ]; then  # not in sanitizer builds
    cmp "$file" "$built/$page.1" || fail "the build has not written $page"
  fi
done

complaints_of() { # PAGE: what the tools that are here say of it
  cd "$work"
  if command -v groff >/dev/null; then groff -ww -man -Tascii -z "man1/$1.1" 2>&1; fi
  if command -v man >/dev/null; then MANWIDTH=80 man --warnings -l "man1/$1.1" 2>&1 >"$1.txt"; fi
  # Style: long lines. A date would make each build another one.
  if command -v mandoc >/dev/null; then mandoc -Tlint -Wwarning "man1/$1.1" | grep -v 'missing date\|so is fragile' || true; fi
}
for page in "${pages[@]}"; do
  complaints=$(complaints_of "$page")
  [ -z "$complaints" ] || fail "$page: $complaints"
done
if [ -s "$work/ddprun.txt" ]; then
  grep -q -- '--max_restarts N' "$work/ddprun.txt" || fail "man does not show a flag"
fi
expect_no_process_left
