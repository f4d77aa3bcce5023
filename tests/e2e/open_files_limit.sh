#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With any limit of open files a job runs, or one report names the limit: it neither crashes nor hangs
# silently. A worker that could not be started is named, and with the limit that the report asks for the job runs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ -z "${UBSAN_OPTIONS:-}" ] || skip "UBSan reads objects through a pipe: it needs descriptors, too"

has_ended_or_waits() {
  ! kill -0 "$ddprun" 2>/dev/null || grep -q 'connections have to wait' "$err"
}

for inherited in {3..19}; do eval "exec $inherited>&-"; done
refused=0 waited=0 ran=0 advised=
for limit in {4..64}; do
  command_prefix[$limit]="prlimit --nofile=$limit:$limit"
  on "$limit" start --nproc_per_node 4 "$DDPRUN_BIN/allreduce_hello"
  wait_until has_ended_or_waits
  kill -TERM "$ddprun" 2>/dev/null || true
  finish
  hint="Too many open files \\(ulimit -n is $limit: raise it\\)"
  lines=$(grep -cv OMP_NUM_THREADS "$err" || true)
  if [ "$code" = 0 ]; then
    [ "$lines" = 0 ] || expect_stderr "cannot accept them: $hint"
    ran=$((ran + 1))
  elif grep -q 'connections have to wait' "$err"; then
    expect_stderr "^ddprun: connections have to wait: cannot accept them: $hint"
    waited=$((waited + 1))
  else
    expect_exit 125
    expect_stderr "^ddprun: .*$hint"
    [ "$lines" -le 3 ] || fail "more than the cause, the stopped workers and the exit code"
    refused=$((refused + 1))
    if grep -qE 'rank [1-3] failed first: it could not be started' "$err"; then
      advised=$(sed -nE 's/.*raise it\); it has to be at least ([0-9]+) to start all 4.*/\1/p' "$err")
    fi
  fi
  expect_no_process_left
  [ $ran -lt 5 ] || break
done
echo "$refused refused, $waited waited, $ran ran"
[ -n "$advised" ] || fail "no worker after the first was named, with a limit"
command_prefix[advised]="prlimit --nofile=$advised:$advised"
on advised run --nproc_per_node 4 "$DDPRUN_BIN/allreduce_hello"
expect_exit 0
expect_no_stderr 'ulimit -n'
expect_no_process_left
[ $refused -gt 0 ] && [ $waited -gt 0 ] && [ $ran -gt 0 ] || fail "an outcome is missing"
