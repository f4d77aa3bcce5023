#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An agent that is stopped (SIGSTOP) still ends: with the guardian, with a signal to the guardian, and
# an agent that does not read its signals with the second one.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"

begin() {
  start --shutdown_timeout 3600 "$@" sh -c '(setsid sleep 600 &) ; echo ready; exec sleep 600'
  wait_for_stdout ready
  agent=$(agent_of)
}

finish_by_interrupt() {
  kill -INT "$ddprun"
  finish
  expect_exit 130
}

# No instant lies between the two signals.
begin
python3 -c 'import os, signal, sys
agent, guardian = map(int, sys.argv[1:])
os.kill(agent, signal.SIGSTOP)
os.kill(guardian, signal.SIGKILL)' "$agent" "$ddprun"
finish
expect_exit 137
expect_no_process_left soon

begin
kill -STOP "$agent"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left

# A debugger holds it, so that it never reads a signal. The other node learns why it is gone.
job=(--nnodes 2 --rdzv_endpoint "$here:29500" --lease 600)
on other start "${job[@]}" sleep 600
on only begin "${job[@]}" --rdzv_conf is_host=false
: >"$work/debugger"
python3 -c 'import ctypes, os, sys
agent = int(sys.argv[1])
attach = 16
if ctypes.CDLL(None).ptrace(attach, agent, None, None) != 0: sys.exit("skip")
stopped = os.waitpid(agent, 0)
print("holds", flush=True)
while True:
    try: os.waitpid(agent, 0)  # it is held at each signal
    except ChildProcessError: break' "$agent" >"$work/debugger" &
debugger=$!
holds() { grep -q holds "$work/debugger" || ! kill -0 "$debugger" 2>/dev/null; }
wait_until holds
if ! grep -q holds "$work/debugger"; then
  kill -KILL "$ddprun"
  finish
  on other finish_by_interrupt
  expect_no_process_left soon
  skip "this user may not debug its processes"
fi
kill -INT "$ddprun"
first_is_forwarded() { (( 0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$agent/status") & 2 )); }
wait_until first_is_forwarded
kill -INT "$ddprun"
finish
wait "$debugger"
expect_exit 130
expect_stderr 'agent did not react to SIGINT; its workers were killed$'
on other expect_stderr 'node 1 .* is gone: its agent did not react to SIGINT$'
finish_by_interrupt
expect_no_process_left
