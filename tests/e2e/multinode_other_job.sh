#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The nodes of a job may run different commands, which ddprun reports in one line. If a job is started at the port of
# another one that has begun, it does not succeed without having run: with another command it is refused; with a command
# of that job it ends with 1 when that job ends.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" "${quick[@]}" --nnodes 2)
program='until [ -e "$0/go" ]; do sleep 0.05; done; echo "rank $RANK: $*"'

on serve start serve "${at[@]}"
wait_for_event serving
for node in a b; do on "$node" start "${at[@]}" sh -c "$program" "$work" "$node"; done
for node in a b; do on "$node" wait_for_event worker_started; done
on serve wait_for_stderr "runs 'sh -c until .*' *, and .* runs 'sh -c until .*': nodes of one job may run different commands"
[ "$(grep -c 'may run different commands' "$err")" = 1 ] || fail "more than one line"
waits() { grep -c waiting "$err" || true; }
before=$(waits)  # of a slow node

on other run "${at[@]}" sh -c "$program" "$work" --lr 2
expect_exit 2
expect_stderr "refused this node: it runs 'sh -c until .* --lr 2', which no node of this job ran when it began \\(.* runs 'sh -c until .*$work"
expect_no_stderr 'waiting'

on same start "${at[@]}" sh -c "$program" "$work" b
wait_for_stderr 'waiting [0-9.]+ s for a place: all 2 nodes of this job are running'
on serve
[ "$(waits)" = "$before" ] || fail "it waits for nobody"  # it began to before the spare did
: >"$work/go"
for node in a b; do
  on "$node" finish
  expect_exit 0
  expect_stdout "^\\[[01]\\] rank [01]: $node$"
done
on same finish
expect_exit 1
expect_stderr "job 'sh' ended without this node: .*node 0 \\(.*\\), node 1 \\(.*another port"
[ "$(grep -c "ended without" "$err")" = 1 ] || fail "more than one line"
has_event job_ended '"exit_code":1' || fail "no event"
on serve finish
expect_exit 0
expect_no_process_left
