#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers send heartbeats by the protocol of sd_notify, with clients as they are: Python's sdnotify in three
# lines and, where they are installed, libsystemd and systemd-notify. When they stop, a progress bar that is still drawn does not
# hide it; --progress_pattern does the same for a program that only prints its steps.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"

cat >"$work/python_client.py" <<'END'
import os, socket, time
address = os.environ["NOTIFY_SOCKET"]
assert int(os.environ["WATCHDOG_USEC"]) == 4000000
beats = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
beats.connect("\0" + address[1:] if address[0] == "@" else address)
for step in range(10):
    beats.sendall(b"WATCHDOG=1\nSTATUS=step %d" % step)
    time.sleep(0.1)
exec(open(os.environ["work"] + "/bar.py").read())
END
cat >"$work/bar.py" <<'END'
import time
while True:
    print("still drawn")
    time.sleep(0.1)
END
export work
start --hang_timeout 4 -- python3 -u "$work/python_client.py"
finish
expect_exit 124
expect_stderr 'no rank has made progress for .*--hang_timeout'
expect_stdout 'still drawn'

if python3 -c 'import ctypes; ctypes.CDLL("libsystemd.so.0")' 2>/dev/null; then
  run --hang_timeout 4 -- python3 -u -c '
import ctypes, os, time
sd_notify = ctypes.CDLL("libsystemd.so.0").sd_notify
for step in range(10):
    assert sd_notify(0, b"WATCHDOG=1\nSTATUS=step %d" % step) > 0
    time.sleep(0.1)
exec(open(os.environ["work"] + "/bar.py").read())'
  expect_exit 124
  expect_stdout 'still drawn'
fi

if command -v systemd-notify >/dev/null; then
  # shellcheck disable=SC2016
  run --hang_timeout 4 bash -c '
    for step in 1 2 3 4 5 6 7; do systemd-notify WATCHDOG=1 "STATUS=step $step"; done
    exec python3 -u "$work/bar.py"'
  expect_exit 124
fi

run --hang_timeout 4 --progress_pattern '^step [0-9]+$' -- python3 -u -c '
import os, time
for step in range(10):
    print("step", step)
    time.sleep(0.1)
exec(open(os.environ["work"] + "/bar.py").read())'
expect_exit 124
expect_stdout 'still drawn'

# The status shows what a worker reports of its progress.
start -- python3 -c '
import os, socket, time
address = os.environ["NOTIFY_SOCKET"]
beats = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
beats.connect("\0" + address[1:] if address[0] == "@" else address)
beats.sendall(b"WATCHDOG=1\nSTATUS=step 7")
time.sleep(600)'
shows_progress() { "$DDPRUN" status "$ddprun" 2>/dev/null | grep -qE '^0 .* step 7$'; }
wait_until shows_progress
kill "$ddprun"
finish
expect_exit 143

run --progress_pattern 'step (' true
expect_exit 2
expect_stderr "progress_pattern 'step \(' is no extended regular expression"
expect_no_process_left
