#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One report has the cause first: rank, exit status, host, pid, end of stderr, stopped ranks, exit code.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 4 bash -c '
  trap "echo one more line >&2; exit 1" TERM
  echo started >"$0.$RANK"
  [ "$RANK" = 2 ] || while :; do sleep 600 & wait; done
  until [ -e "$0.0" ] && [ -e "$0.1" ] && [ -e "$0.3" ]; do sleep 0.01; done
  echo "step 812: loss nan" >&2
  kill -SEGV $$' "$work/started"
expect_exit 139
expect_stderr "^ddprun: rank 2 failed first: killed by SIGSEGV.* \(host $(hostname), pid [0-9]+, round 0\)"
expect_stderr '^ +its last words on stderr:$'
expect_stderr '^ +step 812: loss nan$'
expect_stderr '^ +ranks 0, 1, 3 were stopped by ddprun \(SIGTERM, gone after'
expect_stderr '^ +exit code 139; no restarts were asked for \(--max_restarts N\)$'
[ "$(grep -c 'failed first' "$err")" = 1 ] || fail "more than one report"
[ "$(grep -n 'one more line' "$err" | tail -1 | cut -d: -f1)" -lt \
  "$(grep -n 'failed first' "$err" | cut -d: -f1)" ] || fail "workers wrote after the report"
expect_no_process_left
