#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full disk costs log files and not the job: it is reported once, and the console gets everything.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkdir "$work/small"
mount -t tmpfs -o size=64k,nr_inodes=16 none "$work/small" 2>/dev/null ||
  skip "a small disk takes the right to mount one"
unmount() {
  umount "$work/small"
}
at_exit+=(unmount)

run --nproc_per_node 3 --log_dir "$work/small" --tee 3 sh -c 'seq 30000'
expect_exit 0
[ "$(grep -c '^\[1\] [0-9]*$' "$out")" = 30000 ] || fail "the console lost lines"
[ "$(grep -c 'log files will have gaps: cannot write to .*: No space left on device$' "$err")" = 1 ] ||
  fail "not reported once"
expect_no_process_left

# Not even a directory for the next attempt: the output goes to the console.
run --nproc_per_node 3 --log_dir "$work/small" --redirects 3 --max_restarts 9 sh -c '
  [ "$RANK" != 1 ] || [ "$TORCHELASTIC_RESTART_COUNT" = 9 ] || exit 3
  echo "error file <$TORCHELASTIC_ERROR_FILE>"'
expect_exit 0
expect_stderr 'No space left on device: no log or error files for this round$'
expect_stdout '^\[1\] error file <>$'
expect_no_process_left

# A worker that fails there may have written its reason when the disk was full.
rm -r "$work/small"/*
run --log_dir "$work/small" --redirects 3 sh -c 'seq 30000; exit 3'
expect_exit 3
expect_stderr "no space left on the disk of its log file $work/small/.*, which may lack its last words$"
expect_no_process_left
