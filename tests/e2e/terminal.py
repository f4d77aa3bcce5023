# SPDX-License-Identifier: Apache-2.0
"""An interactive bash on a terminal of its own, for tests that type: python3 terminal.py <<'END' ... END

    type(TEXT)      as if TEXT were typed; "\\x03" is Ctrl-C, "\\x1a" Ctrl-Z
    expect(REGEX)   waits until it is on the screen, after what was expected before; returns the text up to it
    prompt          a regular expression for bash's prompt
    check(CONDITION, TEXT)
    processes()     the running processes of this test but bash and python: {pid: state}
    until(FUNCTION) waits until it returns something true, and returns it
    has_terminal()  whether a job has the terminal, and not bash
    resize(ROWS, COLUMNS)

The script ends with bash's end, or with exit code 1 and all that was on the screen. Nothing is timed: the
deadline only ends a test that hangs.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

prompt = r"ready> "
deadline = time.monotonic() + float(os.environ.get("DDPRUN_TEST_DEADLINE", 60))
mark = os.environ["DDPRUN_TEST_MARK"].encode()
read = b""  # of the terminal
screen = ""
seen = 0  # of the screen


def fail(reason):
    sys.stdout.write(f"{reason}\n--- the screen:\n{screen}\n")
    sys.exit(1)


def check(condition, text):
    if not condition:
        fail(text)


def type(text):
    os.write(terminal, text.encode())


def read_more():
    """False: bash has ended."""
    global read, screen
    if time.monotonic() > deadline:
        fail("timed out")
    if not select.select([terminal], [], [], 0.02)[0]:
        return True
    try:
        part = os.read(terminal, 65536)
    except OSError:  # the end, for a terminal
        part = b""
    # As a whole, as a read may end between the two bytes of a line's end.
    read += part
    screen = read.decode(errors="replace").replace("\r\n", "\n")
    return bool(part)


def expect(regex):
    global seen
    while not (match := re.search(regex, screen[seen:], re.MULTILINE)):
        if not read_more():
            fail(f"bash ended without: {regex}")
    text = screen[seen : seen + match.end()]
    seen += match.end()
    return text


def until(function):
    while not (result := function()):
        read_more()
    return result


def processes():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/stat") as stat:
                if mark in environment.read().split(b"\0") and int(pid) not in (bash, os.getpid()):
                    found[int(pid)] = stat.read().rpartition(") ")[2][0]
        except OSError:
            pass  # it has ended, or is another user's
    return found


def has_terminal():
    return os.tcgetpgrp(terminal) != os.getpgid(bash)


def resize(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


bash, terminal = pty.fork()
if bash == 0:
    os.environ.update(PS1="ready> ", TERM="dumb", HISTFILE="")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
expect(prompt)
exec(compile(sys.stdin.read(), "the test", "exec"))
type("exit\n")
while read_more():
    pass
os.kill(bash, signal.SIGKILL)
os.waitpid(bash, 0)
