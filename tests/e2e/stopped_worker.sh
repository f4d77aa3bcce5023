#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun reports when a worker is stopped, and when it continues. A worker that is stopped (Ctrl-Z, a debugger) still
# gets --shutdown_timeout: ddprun continues it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start --shutdown_timeout 3600 bash -c '
  trap "echo saved; exit 0" TERM
  echo "pid $$"; kill -STOP $$; while :; do sleep 600 & wait; done'
wait_until grep -q '^pid' "$out"
worker=$(sed -n 's/^pid //p' "$out")
is_stopped() { grep -q '^State:.*T (stopped)' "/proc/$worker/status"; }
wait_until is_stopped
wait_for_stderr "rank 0 \\($(uname -n), pid $worker\\) is stopped by SIGSTOP"
kill -CONT "$worker"
wait_for_stderr "rank 0 \\($(uname -n), pid $worker\\) continues; it was stopped for [0-9]"
kill -STOP "$worker"
wait_until is_stopped
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stdout '^saved$'
expect_no_process_left
