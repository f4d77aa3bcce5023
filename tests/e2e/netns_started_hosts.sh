# SPDX-License-Identifier: Apache-2.0
# Helps tests of two hosts, on the second of which a scheduler's command starts the agent. Source it in place of
# netns.sh. It has its two hosts, $work/bin for that command, which notes its pid in $work/COMMAND.pids, and
#
#   expect_sums            that the run was of four ranks of allreduce_hello
#   expect_one_report      that a job that fails on the second host is reported once
#   start_sleepers         starts a job, and waits for its worker on each host
#   expect_lost COMMAND    that the job ended as COMMAND, which was killed, did
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2 4
mkdir "$work/bin"

expect_sums() {
  local rank
  expect_exit 0
  for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
  expect_no_process_left
}

expect_one_report() {
  # shellcheck disable=SC2016
  run sh -c 'test $RANK = 0 || exit 7; exec sleep 1000'
  expect_exit 7
  [ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
  expect_no_process_left
}

both_run() { [ "$(grep -c runs "$out")" = 2 ]; }
start_sleepers() {
  rm -f "$work"/*.pids
  start sh -c 'echo runs; exec sleep 1000'
  wait_until both_run
}

expect_lost() {
  finish
  expect_exit 125
  expect_stderr "host node2 is lost: its $1 ended"
  expect_no_process_left soon
}
