#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If no process may trace another, as in some containers, ddprun ends a round that hangs by SIGABRT for workers of
# Python, which print their stacks at it, before the others get SIGTERM.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"

cat >"$work/sandbox.py" <<END
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "$(realpath "$(dirname "${BASH_SOURCE[0]}")/../failures")")
import failure, sandbox
try:
    sandbox.deny_ptrace()
except failure.Unfit:
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
END
python3 "$work/sandbox.py" "$(type -P true)" || skip "there is no seccomp filter"
cat >"$work/train.py" <<'END'
import threading

def load_batch():
    threading.Event().wait()

load_batch()
END
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0  # that would take ptrace
command_prefix[only]="python3 $work/sandbox.py"

export work
# shellcheck disable=SC2016
run --nproc_per_node 2 --hang_timeout 5 bash -c '[ "$RANK" = 0 ] || exec python3 "$work/train.py"; exec sleep 600'
expect_exit 124
expect_stderr '^\[1\]   File ".*/train.py", line 4 in load_batch$'
expect_no_stderr '^\[0\]'
expect_stderr 'ranks 0-1 were stopped by ddprun \(SIGTERM|ranks 0, 1 were stopped by ddprun \(SIGTERM'

# All of them are in the report, also the one that ends last.
run --nproc_per_node 3 --hang_timeout 5 python3 "$work/train.py"
expect_exit 124
expect_stderr 'ranks 0-2 were stopped by ddprun'

# ddprun obeys a user who forbids Python to print them.
PYTHONFAULTHANDLER='' run --hang_timeout 5 python3 "$work/train.py"
expect_exit 124
expect_no_stderr 'load_batch'
expect_no_process_left
