# SPDX-License-Identifier: Apache-2.0
# Four hosts with attackers, which attacker.py is: sourced in place of netns.sh, and has
#
#   attack NAME HOST ARGUMENTS...   starts attacker.py there; what it prints goes to $work/NAME.out
#   has_line NAME LINE              whether it has printed that line; fails if it has failed
#
# and $recordings, a folder for what they record.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip "there is no python3"
hosts 4 4
attacker=$(dirname "${BASH_SOURCE[0]}")/attacker.py
recordings=$work/recordings
mkdir "$recordings"

processes=()
stop_attackers() {
  kill -KILL "${processes[@]}" 2>/dev/null
}
at_exit+=(stop_attackers)

attack() {
  # shellcheck disable=SC2086
  ${command_prefix[$2]} python3 "$attacker" "${@:3}" >"$work/$1.out" 2>"$work/$1.err" &
  processes+=($!)
}

has_line() {
  grep -qsx -- "$2" "$work/$1.out" || { ! grep -qs Traceback "$work/$1.err" || fail "$(cat "$work/$1.err")"; false; }
}
