#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-Z stops the whole job, so that nothing writes over the shell's prompt, and fg, bg and kill
# go on with it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/count" <<'SH'
#!/bin/bash
trap 'echo saved; exit 0' TERM
setsid bash -c 'while :; do echo other; sleep 0.05; done' &
while :; do echo up; sleep 0.05; done
SH
chmod +x "$work/count"

on_terminal <<END
type("$DDPRUN --nproc_per_node 2 $work/count\n")
for round in range(2):
    expect(r"^\[0\] up\$"), expect(r"^\[1\] up\$"), expect(r"^\[1\] other\$")
    type("\x1a")
    expect("Stopped")
    expect(prompt)
    check(len(processes()) > 5, f"only {processes()}")
    until(lambda: set(processes().values()) <= set("TZ"))
    type("echo two\$((1+1))\n")
    check("[" not in expect("^two2\$"), "a worker wrote over the prompt")
    expect(prompt)
    type("fg\n")

expect(r"^\[0\] up\$"), expect(r"^\[0\] other\$")
type("\x1a")
expect("Stopped")
type("bg\n")
expect(r"^\[0\] up\$"), expect(r"^\[0\] other\$")
type("fg\n")
until(has_terminal)  # before, Ctrl-Z is for bash, which ignores it
type("\x1a")
expect("Stopped")
type("set -b\n")  # the shell tells when the job has ended
expect(prompt)
type("kill %1\n")
expect(r"^\[[01]\] saved\$"), expect(r"^\[[01]\] saved\$")
expect("Exit 143")
until(lambda: not processes())
END
expect_no_process_left

# Without a shell that could continue it, ddprun does not stop.
command_prefix[only]='setsid --wait'
start bash -c 'trap "echo goes on; exit 0" USR1; echo ready; while :; do sleep 600 & wait; done'
wait_for_stdout ready
guardian=$(agent_of)  # setsid's child
kill -TSTP "$guardian"
is_read() { (( ! (0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$guardian/status") & 1 << 19) )); }
wait_until is_read
kill -USR1 "$guardian"
finish
expect_exit 0
expect_stdout '^goes on$'
expect_no_process_left

# A script that ddprun belongs to stops at once, and may be continued while ddprun still stops its processes.
unset 'command_prefix[only]'
start sh -c 'for i in $(seq 300); do sleep 600 & done; echo ready; wait'
wait_for_stdout ready
python3 - "$(agent_of)" "$ddprun" <<'END'
import os, signal, sys
agent, guardian = map(int, sys.argv[1:])
def is_stopped(): return open(f"/proc/{agent}/stat").read().split(") ")[1].startswith("T")
os.kill(guardian, signal.SIGTSTP)
while not is_stopped(): pass
os.kill(guardian, signal.SIGCONT)
END
runs() {
  local states
  states=$(ps -o state= -p "$ddprun,$(agent_of),$(worker_of)") && ! grep -q T <<<"$states"
}
wait_until runs
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
