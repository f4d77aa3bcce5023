#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guardian and agent are killed at the same instant: the next run removes their directories of error files and of
# PyTorch's flight recorder, but not those of a job that runs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

unset TMPDIR
[ -w /dev/shm ] || skip "there is no /dev/shm"
command -v python3 >/dev/null || skip "there is no python3"
wait_and_say='
import os, time
own = dict(each.split("=", 1) for each in open("/proc/self/environ").read().split("\0") if each)
print(os.path.dirname(own["TORCHELASTIC_ERROR_FILE"]), own["DDPRUN_RECORDER_FOLDER"], flush=True)
time.sleep(600)'
is_free() { [ ! -e "$1" ] || flock --nonblock 7 7<"$1"; }
is_there() { [ -d "$1" ]; }
is_gone() { [ ! -e "$1" ]; }
directories_of() { on "$1" true; cat "$out"; }
each_of() { local folder; for folder in $2; do "$1" "$folder" || return 1; done; }

on runs start python3 -c "$wait_and_say"
wait_for_stdout '^/dev/shm/'
on killed start python3 -c "$wait_and_say"
wait_for_stdout '^/dev/shm/'
agent=$(agent_of)
abandoned=$(directories_of killed)
each_of is_there "$abandoned" || fail "$abandoned is not there while its job runs"
kill -STOP "$ddprun"  # or it would clean up
kill -KILL "$agent" "$ddprun"
finish
wait_until each_of is_free "$abandoned"  # the agent may end after the guardian
on next start python3 -c "$wait_and_say"
wait_until each_of is_gone "$abandoned"  # a job of another test may be the one that removes it
on next true
kill -TERM "$ddprun"
finish
used=$(directories_of runs)
each_of is_there "$used" || fail "the directory of a running job was removed"
on runs true
kill -TERM "$ddprun"
finish
each_of is_gone "$used" || fail "$used is still there"
expect_no_process_left soon
