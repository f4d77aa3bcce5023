#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every worker has an error file: in the tree of --log_dir, where it stays, or in a temporary
# directory, which is removed however the job ends.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export TMPDIR=$work/tmp
mkdir "$TMPDIR"
no_temporary_files() {
  [ -z "$(ls -A "$TMPDIR")" ]
}

# One worker writes in each attempt; the files exist while the job runs.
run --nproc_per_node 2 --max_restarts 1 sh -c '
  [ "$RANK" = 1 ] || exec sleep 600
  echo "file $TORCHELASTIC_ERROR_FILE"; [ ! -e "$TORCHELASTIC_ERROR_FILE" ] || exit 99
  echo "$RANK" >"$TORCHELASTIC_ERROR_FILE"; exit 3'
expect_exit 3
[ "$(grep '^\[1\] file ' "$out" | sort -u | grep -c "file $TMPDIR/ddprun_")" = 2 ] ||
  fail "not two files in a temporary directory"
no_temporary_files || fail "temporary files are left"
expect_no_process_left

# However the job ends, and also when a worker leaves other files there.
for victim in agent guardian; do
  start sh -c 'mkdir "${TORCHELASTIC_ERROR_FILE%/*}/own"; : >"$TORCHELASTIC_ERROR_FILE"
    echo ready; exec sleep 600'
  wait_for_stdout ready
  kill -KILL "$([ $victim = agent ] && agent_of || echo "$ddprun")"
  finish
  wait_until no_temporary_files
  expect_no_process_left soon
done

# In a log directory they stay, separately for each attempt.
run --nproc_per_node 12 --max_restarts 1 --rdzv_id a/b --log_dir "$work/logs/of/jobs" sh -c '
  [ "$RANK" = 11 ] || exit 0
  echo "attempt $TORCHELASTIC_RESTART_COUNT" >"$TORCHELASTIC_ERROR_FILE"; exit 3'
expect_exit 3
for attempt in 0 1; do
  grep -qx "attempt $attempt" "$work"/logs/of/jobs/a_b_*/attempt_$attempt/11/error.json ||
    fail "no error file of attempt $attempt"
done
[ -d "$(echo "$work"/logs/of/jobs/a_b_*/attempt_0/0)" ] || fail "rank 0 has no directory"
no_temporary_files || fail "a temporary directory was made"
expect_no_process_left

PET_LOG_DIR=/dev/null run sh -c 'echo "file=$TORCHELASTIC_ERROR_FILE."'
expect_exit 0
expect_stdout '^file=\.$'
no_temporary_files || fail "a temporary directory was made"
expect_no_process_left

: >"$work/file"
run --log_dir "$work/file" echo never
expect_exit 2
expect_no_stdout never
expect_stderr "^ddprun: --log_dir $work/file: not a directory; give a directory"
[ "$(wc -l <"$err")" = 1 ] || fail "more than one line"
expect_no_process_left
