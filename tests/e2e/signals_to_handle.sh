#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The signals of --signals_to_handle stop the job as SIGTERM does; one that is not among them ends
# ddprun at once, but with a complete clean-up.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

say_and_end='for s in TERM USR1 XCPU; do trap "echo got $s; exit 0" $s; done; sleep 600 &
             echo "ready $TORCHELASTIC_SIGNALS_TO_HANDLE"; while :; do wait; done'
for signal in USR1:138 XCPU:152 TERM:143; do
  start --nproc_per_node 2 --shutdown_timeout 3600 --signals_to_handle usr1,XCPU,SIGTERM \
    bash -c "$say_and_end"
  wait_until grep -q '\[0\] ready SIGUSR1,SIGXCPU,SIGTERM$' "$out"
  wait_until grep -q '\[1\] ready' "$out"
  kill -s "${signal%:*}" "$ddprun"
  finish
  expect_exit "${signal#*:}"
  expect_stdout "^\[0\] got ${signal%:*}$"
  expect_stdout "^\[1\] got ${signal%:*}$"
  expect_stderr "stopping 2 workers \(SIG${signal%:*}\); again to kill them at once"
  expect_no_process_left
done

# A second SIGUSR1 means at once, as for all of them.
start --nproc_per_node 1 --shutdown_timeout 3600 --signals_to_handle USR1 \
  bash -c 'trap "echo no" USR1; echo ready; while :; do sleep 600 & wait; done'
wait_until grep -q ready "$out"
kill -USR1 "$ddprun"
wait_until grep -q '^no$' "$out"
kill -USR1 "$ddprun"
finish
expect_exit 138
expect_no_process_left

# Not among them: workers are killed without a signal before, also those in other sessions.
for signal in TERM:143 INT:130 ALRM:142; do
  start --nproc_per_node 2 --shutdown_timeout 3600 --signals_to_handle SIGHUP bash -c '
    trap "echo heard" TERM INT ALRM; setsid sleep 600 & echo ready; while :; do wait; done'
  wait_until grep -q '\[0\] ready' "$out"
  wait_until grep -q '\[1\] ready' "$out"
  kill -s "${signal%:*}" "$ddprun"
  finish
  expect_exit "${signal#*:}"
  expect_no_stdout heard
  expect_stderr "killing 2 workers: SIG${signal%:*} is not one of the --signals_to_handle"
  has_event job_ended '"outcome":"interrupted"' || fail 'the end has no event'
  expect_no_process_left
done

# The guard against orphans does not depend on the list.
start --nproc_per_node 1 --signals_to_handle SIGHUP sh -c 'setsid sleep 600 & echo ready; wait'
wait_until grep -q ready "$out"
kill -KILL "$ddprun"
finish
expect_exit 137
expect_no_process_left soon

run --signals_to_handle SIGKILL true
expect_exit 2
expect_stderr '^ddprun: --signals_to_handle cannot handle SIGKILL: no process can catch it$'
expect_no_process_left
