#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stdin goes to rank 0, and is empty for the others; a pipe, a file, /dev/null and a terminal all work.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

printf 'one\ntwo\n' | { run --nproc_per_node 2 sh -c 'sed "s/^/read /"; echo "end of input"'
  expect_exit 0
  [ "$(cat "$out" | grep -c '^\[0\] read')" = 2 ] || fail "rank 0 did not read two lines"
  expect_no_stdout '^\[1\] read'
  expect_stdout '^\[1\] end of input$'
  expect_no_process_left
  cp "$out" "$work/piped"
}
[ -s "$work/piped" ] || exit 1

run --nproc_per_node 2 cat
expect_exit 0
expect_no_process_left

run sh -c 'read -r line; echo "got <$line>"' <"${BASH_SOURCE[0]}"
expect_stdout '^got <#!/usr/bin/env bash>$'
expect_no_process_left

# script(1) gives ddprun a terminal and types a line into it.
cat >"$work/on_terminal" <<SCRIPT
exec "$DDPRUN" sh -c 'read -r line; echo "terminal <\$line>"'
SCRIPT
env "$mark" script -qec "bash $work/on_terminal" "$work/typescript" <<<'typed' >"$out"
expect_stdout 'terminal <typed>'
expect_no_process_left
