#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# -r and -t write workers' output unchanged into the tree of --log_dir, and -t to the console as well;
# each attempt has its own files, and the report quotes redirected output.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export TMPDIR=$work/tmp
mkdir "$TMPDIR"
# shellcheck disable=SC2016
talk='printf "out %s\rmore\npart" "$RANK"; echo "err $RANK" >&2'

has() {  # has FILE TEXT: the file of the one run below $work/logs has exactly this content
  local file
  file=$(echo "$work"/logs/*/"$1")
  printf '%b' "$2" | cmp -s - "$file" || fail "$1: $(cat -A "$file")"
}

# Masks for some ranks, also of two digits; the others have no files.
run --nproc_per_node 12 --log_dir "$work/logs" -r 0:3,10:2 -t11:1 sh -c "$talk"
expect_exit 0
has attempt_0/0/stdout.log 'out 0\rmore\npart'
has attempt_0/0/stderr.log 'err 0\n'
has attempt_0/10/stderr.log 'err 10\n'
has attempt_0/11/stdout.log 'out 11\rmore\npart'
[ "$(find "$work"/logs/*/attempt_0 -name '*.log' | wc -l)" = 4 ] || fail "other files"
expect_no_stdout '^\[0\]'
expect_no_stderr '^\[(0|10)\]'
expect_stdout '^\[10\] part$'
expect_stdout '^\[11\] part$'
expect_stderr '^\[11\] err 11$'
[ -z "$(ls -A "$TMPDIR")" ] || fail "there are temporary files"
expect_no_process_left
rm -r "$work/logs"

# Earlier attempts stay. The report has the last output of a redirected worker and its children.
run --nproc_per_node 2 --log_dir "$work/logs" --redirects 3 --max_restarts 1 sh -c '
  echo "attempt $TORCHELASTIC_RESTART_COUNT"
  [ "$RANK" = 1 ] || exit 0
  (echo "the cause" >&2); exit 7'
expect_exit 7
for attempt in 0 1; do
  has attempt_$attempt/1/stdout.log "attempt $attempt\n"
  has attempt_$attempt/1/stderr.log 'the cause\n'
done
expect_stderr '^ddprun: rank 1 failed first: exit 7 .*round 0\): the cause$'
expect_stderr "^ +its log files: $work/logs/sh_[^/]*/attempt_1/1\$"
expect_no_stdout .
expect_no_process_left
rm -r "$work/logs"

# A worker writes its file itself: no output is lost when ddprun is killed.
start --log_dir "$work/logs" -t 1 -r 2 sh -c 'echo to file >&2; echo to both; exec sleep 600'
wait_for_stdout 'to both'
kill -KILL "$(agent_of)"
finish
has attempt_0/0/stdout.log 'to both\n'
has attempt_0/0/stderr.log 'to file\n'
expect_no_process_left soon

# Without --log_dir they are in a temporary directory, which is printed and stays.
run -t 3 sh -c 'echo hello'
expect_exit 0
expect_stdout '^hello$'
expect_stderr "^ddprun: log files are in $TMPDIR/ddprun_sh_"
grep -qx hello "$TMPDIR"/ddprun_sh_*/attempt_0/0/stdout.log || fail "no log file"
expect_no_process_left

# /dev/null: redirected output is discarded.
run --nproc_per_node 2 --log_dir /dev/null -r 1 -t 2 sh -c "$talk"
expect_exit 0
expect_no_stdout .
expect_stderr '^\[1\] err 1$'
expect_no_process_left
