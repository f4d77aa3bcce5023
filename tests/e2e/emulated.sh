#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under qemu's emulation of a processor, as in a container of another architecture, jobs run, fail and restart.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
qemu=qemu-$(uname -m)-static
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip "sanitizers do not run under it"
command -v "$qemu" >/dev/null || skip "there is no $qemu (Debian: qemu-user-static)"
command_prefix[only]=$qemu

run --nproc_per_node 3 --max_restarts 1 sh -c 'echo "rank $RANK"; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'
expect_exit 0
expect_stdout '^\[2\] rank 2$'
expect_stderr 'restart 1 of 1'
expect_no_process_left

run --nproc_per_node 2 sh -c '[ $RANK = 0 ] || exit 3; exec sleep 600'
expect_exit 3
expect_stderr 'rank 1 failed first: exit 3'
expect_no_process_left

# An error that the child finds after the fork.
printf 'no script' >"$work/text"
chmod +x "$work/text"
run "$work/text"
expect_exit 126
expect_stderr 'Exec format error .a script needs a first line'
expect_no_process_left

# A Python under it shows another /proc than its own, so its workers are not forked.
if python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null); then
  printf '#!/bin/sh\nexec %s %s "$@"\n' "$qemu" "$python" >"$work/python"
  chmod +x "$work/python"
  echo 'print("runs")' >"$work/program.py"
  command_prefix[only]=''
  PYTHON_EXEC=$work/python run --preload json "$work/program.py"
  expect_exit 0
  expect_stdout '^runs$'
  expect_stderr 'preload has no effect, .*: an emulator runs this Python$'
  expect_no_process_left
fi
