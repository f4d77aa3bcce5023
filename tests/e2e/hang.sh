#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --hang_timeout a round in which no worker makes progress has failed: the report names the rank that the
# others wait for, and the job is restarted.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkfifo "$work/collective"
export work
# The waiting ranks read what nobody writes; a process that sleeps reaches no collective.
# shellcheck disable=SC2016
run --nproc_per_node 3 --hang_timeout 6 --max_restarts 1 bash -c '
  [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
  echo "waits"  # from then on the time is counted, however long they took to start
  [ "$RANK" != 1 ] || exec sleep 3600
  exec cat <>"$work/collective"'
expect_exit 0
expect_stderr 'no rank has made progress for [0-9.]+ s \(round 0\) \(--hang_timeout\): rank 1 \(.*\) is the likely cause: asleep \(clock_nanosleep\) for .*, while ranks 0, 2 waited'
expect_stderr 'restart 1 of 1'
wait_for_event restart
wait_for_event hang '"round":0,"report":"no rank has made progress for '
expect_no_process_left
