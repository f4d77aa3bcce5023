#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals that nohup and shells ignore stay ignored, except SIGTERM and SIGCHLD, which ddprun needs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# ddprun, started by a parent that ignores some signals.
export real=$DDPRUN
DDPRUN=$work/ignoring
printf '#!/bin/bash\ntrap "" $ignored\nexec "$real" "$@"\n' >"$DDPRUN"
chmod +x "$DDPRUN"

export ignored='HUP INT QUIT'
start bash -c 'trap "exit 5" USR1; echo ready; while :; do sleep 600 & wait; done'
wait_until grep -q ready "$out"
kill -HUP "$ddprun"
kill -INT "$ddprun"
kill -QUIT "$ddprun"
kill -USR1 "$ddprun"  # signals are read in the order of their numbers: this is the last
finish
expect_exit 5
expect_no_stderr 'stopping'
expect_no_process_left

export ignored='TERM CHLD'
start --nproc_per_node 2 --shutdown_timeout 3600 sh -c '[ $RANK = 1 ] || exec sleep 600; exit 5'
finish
expect_exit 5
expect_no_process_left

start --nproc_per_node 2 --shutdown_timeout 3600 sh -c 'echo ready; exec sleep 600'
wait_until grep -q '\[0\] ready' "$out"
wait_until grep -q '\[1\] ready' "$out"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
