#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The folder of scripts/release/folder as a user gets it: the checksums fit, the notes have the changes, and the command of
# README trains on Debian 11, 12 and 13 with nothing but Python (3.9, 3.11, 3.13), and with each Python from 3.8 on that
# this machine has.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

portable_tools
DDPRUN_RELEASE=$work/release "$source/scripts/release/folder" >"$work/names"
cd "$work/release"
sha256sum --quiet --check --ignore-missing SHA256SUMS || fail 'the checksums do not fit'
[ "$(wc -l <SHA256SUMS)" = 2 ] || fail "not two files: $(cat SHA256SUMS)"
[ "$(wc -l <"$work/names")" = 4 ] || fail "it names: $(cat "$work/names")"
grep -q '^### Added$' NOTES.md || fail 'the notes have no changes'

echo 'import os, sys; print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.prefix)' >train.py
command=$(sed -n 's/^    \(pip install .*train\.py\) .*/\1/p' "$source/README.md")
[ -n "$command" ] || fail 'README does not install the wheel'
trains() {  # trains ENVIRONMENT COMMAND...: the command runs a shell's line, in which the environment is active
  local output
  output=$("${@:2}" "PATH=$1/bin:\$PATH; pip() { command pip --quiet --disable-pip-version-check \"\$@\" --no-index; }; $command" |
           sort) || fail "$command, in $1"
  [ "$output" = "$(printf '[%s] %s of 2 '"$1"'\n' 0 0 1 1)" ] || fail "$command, in $1, prints: $output"
}

for python in "$HOME"/.pyenv/versions/3.*/bin/python3 /usr/bin/python3; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
  rm -rf "$work/venv"
  "$python" -m venv "$work/venv"
  trains "$work/venv" sh -c
  "$python" --version
done

for suite in bullseye bookworm trixie; do
  clean_root $suite python3 python3-venv
  mkdir "$root/release"
  cp -- * "$root/release"
  in_root python3 -m venv /venv
  trains /venv in_root sh -c "cd /release && eval \"\$0\""
  echo "$suite: passed"
  rm -rf --one-file-system "$root"
done
