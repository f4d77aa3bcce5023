#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker alone is on the terminal as without ddprun: what it prints is shown at once and unchanged, it edits lines
# with their history, and the report has its last words.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/lines" <<'PY'
import readline
print("twice:", input("a? "), input("b? "))
PY
cat >"$work/fails" <<'PY'
import os, sys
print("step 1")
print("\033[1mlast words\033[0m", file=sys.stderr)
os.abort()
PY

cat >"$work/pager" <<SH
#!/bin/bash
stty -echo </dev/tty
touch $work/set
cat  # until ddprun has ended
echo "left: \$(stty -a </dev/tty | grep -o -- '-echo\b' | head -n 1)"
stty echo </dev/tty
SH
chmod +x "$work/pager"

on_terminal <<END
type("$DDPRUN python3 -c 'import os; print(*map(os.isatty, range(3)))'\n")
expect("^True True True\$"), expect(prompt)
type("""$DDPRUN python3 -c 'import sys; print("first"); sys.stdin.readline()'\n""")
expect("^first\$")  # before it has ended
type("\n"), expect(prompt)
type("$DDPRUN python3 $work/lines\n")
expect("a\\\\? "), type("once\n")
expect("b\\\\? "), type("\x1b[A\n")
expect("^twice: once once\$"), expect(prompt)

type("$DDPRUN python3 $work/fails\n")
expect("^step 1\$")
expect("^\x1b\\\\[1mlast words\x1b\\\\[0m\$")  # as it was written
expect("^ddprun: rank 0 failed first: killed by SIGABRT"), expect("^          last words\$"), expect(prompt)

# There is no /dev/tty, so passwords are read from stdin, without an echo.
type("$DDPRUN python3 -c 'import getpass; print(getpass.getpass()[::-1])'\n")
expect("^Password: "), type("drow\n")
check("drow" not in expect("^word\$"), "a password is shown"), expect(prompt)

# stdout and stderr keep their order.
type("$DDPRUN sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out\$i; echo err\$i >&2; done'\n")
for i in range(1, 10):
    check(expect(f"^err{i}\$").strip().endswith(f"out{i}\nerr{i}"), "the order has changed")
expect(prompt)

# Settings that a killed worker leaves behind are not the shell's.
type("$DDPRUN sh -c 'stty -echo -icanon; kill -9 \$\$'\n")
expect("killed by SIGKILL"), expect(prompt)
type("stty -a; echo end\n")
settings = expect("^end\$")
expect(prompt)
check(" echo " in settings and " icanon " in settings, "the terminal has a worker's settings")

# If ddprun ends before a pager that shows its output, the pager's settings stay.
type("$DDPRUN sh -c 'until [ -e $work/set ]; do sleep 0.02; done' | $work/pager\n")
expect("^left: -echo\$"), expect(prompt)

# A pipe and a log file get what a program writes to a pipe.
type("$DDPRUN sh -c 'test -t 1 || echo pipe; test -t 2 && echo terminal >&2' | cat\n")
expect("^terminal\$|^pipe\$"), expect("^terminal\$|^pipe\$"), expect(prompt)
type("$DDPRUN --log_dir $work --tee 3 sh -c 'test -t 1 || echo pipe'\n")
expect("^pipe\$"), expect(prompt)
type("$DDPRUN --tty never sh -c 'test -t 1 || echo pipe'\n")
expect("^pipe\$"), expect(prompt)
END
expect_no_process_left

run --tty always sh -c 'test -t 1 && test -t 2 && echo terminal'
expect_stdout '^terminal$'
[ "$(od -c "$out" | grep -c '\\r')" = 0 ] || fail "there are carriage returns in a file"
expect_no_process_left
