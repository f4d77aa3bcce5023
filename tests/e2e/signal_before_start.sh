#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal that arrives before ddprun's first instruction is not lost, and leaves no process.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The signal is pending, blocked, in the process that becomes ddprun.
real=$DDPRUN
cat >"$work/blocked" <<PYTHON
#!$(command -v python3)
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
os.execv("$real", ["ddprun"] + sys.argv[1:])
PYTHON
chmod +x "$work/blocked"
DDPRUN=$work/blocked
run --nproc_per_node 2 sleep 600
expect_exit 143
expect_no_process_left
