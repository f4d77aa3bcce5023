#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C on a terminal reaches the workers once, and a shell that runs ddprun in a loop ends the loop.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A second SIGINT would kill it before it has saved.
cat >"$work/save" <<'SH'
#!/bin/bash
trap 'sleep 0.3; echo saved; exit 0' INT
echo up
while :; do sleep 600 & wait; done
SH
chmod +x "$work/save"

on_terminal <<END
type("$DDPRUN --shutdown_timeout 3600 $work/save; echo code=\$?\n")
expect("^up\$")
type("\x03")
expect("^saved\$")
expect(prompt)
type("for turn in 1 2; do $DDPRUN $work/save; echo after\$turn; done\n")
expect("^up\$")
type("\x03")
check("after" not in expect("^saved\$") + expect(prompt), "the loop went on")
type("echo code=\$?\n")
expect("^code=130\$")
END

# A program that sends the signal sees an exit code.
env "$mark" python3 - "$DDPRUN" "$work/save" <<'END'
import signal, subprocess, sys
job = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
assert job.stdout.readline() == b"up\n"
job.send_signal(signal.SIGINT)
assert job.wait() == 130, job.returncode
END
expect_no_process_left
