#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guardian and agent are killed at the same instant: the next run removes their directory of error
# files, but not that of a job that runs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

unset TMPDIR
[ -w /dev/shm ] || skip "there is no /dev/shm"
wait_and_say='echo "$TORCHELASTIC_ERROR_FILE"; exec sleep 600'
is_free() { [ ! -e "$1" ] || flock --nonblock 7 7<"$1"; }
is_gone() { [ ! -e "$1" ]; }
directory_of() { on "$1" true; dirname "$(cat "$out")"; }

on runs start sh -c "$wait_and_say"
wait_for_stdout '^/dev/shm/'
on killed start sh -c "$wait_and_say"
wait_for_stdout '^/dev/shm/'
agent=$(agent_of)
abandoned=$(directory_of killed)
[ -d "$abandoned" ] || fail "$abandoned is not there while its job runs"
kill -STOP "$ddprun"  # or it would clean up
kill -KILL "$agent" "$ddprun"
finish
wait_until is_free "$abandoned"  # the agent may end after the guardian
on next start sh -c "$wait_and_say"
wait_until is_gone "$abandoned"  # a job of another test may be the one that removes it
on next true
kill -TERM "$ddprun"
finish
used=$(directory_of runs)
[ -d "$used" ] || fail "the directory of a running job was removed"
on runs true
kill -TERM "$ddprun"
finish
[ ! -e "$used" ] || fail "$used is still there"
expect_no_process_left soon
