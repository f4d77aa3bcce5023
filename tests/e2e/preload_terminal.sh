#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --preload workers have their terminals, too: input, debuggers, Ctrl-C, and Ctrl-Z, after which the process of
# --preload continues with the job.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
unset PYTHON_EXEC
cat >"$work/asks.py" <<'PY'
import os, sys
print("terminals", [each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)], "json" in sys.modules)
print("hello", input("name? "))
breakpoint()
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
PY
cat >"$work/waits.py" <<'PY'
import time
print("waits")
time.sleep(600)
PY

cat >"$work/debugged.py" <<'PY'
import os
rank = os.environ["RANK"]
if rank == "1":
    breakpoint()
PY

on_terminal <<END
type("$DDPRUN --preload json --max_restarts 1 $work/asks.py\n")
for round in range(2):
    expect(r"^terminals \[True, True, True\] True\$")
    expect(r"name\? "), type("you\n"), expect("^hello you\$")
    expect(r"\(Pdb\) "), type("p 20 + 3\n"), expect("^23\$")
    expect(r"\(Pdb\) "), type("\x1a")
    expect("Stopped"), expect(prompt)
    until(lambda: set(processes().values()) <= set("TZ"))
    type("fg\n")
    type("p 20 + 4\n"), expect("^24\$")
    expect(r"\(Pdb\) "), type("c\n")
expect(prompt)
type("echo code=\$?\n"), expect("^code=0\$"), expect(prompt)

type("$DDPRUN --preload json --nproc_per_node 2 --pdb 1 $work/debugged.py\n")
expect(r"\(Pdb\) "), type("p 'of ' + rank\n"), expect("^'of 1'\$")
expect(r"\(Pdb\) "), type("c\n"), expect(prompt)
type("echo code=\$?\n"), expect("^code=0\$"), expect(prompt)

type("$DDPRUN --preload json --nproc_per_node 2 $work/waits.py\n")
for _ in range(2):
    expect(r"^\[[01]\] waits\$")
type("\x03")
expect("KeyboardInterrupt"), expect(prompt)
type("echo code=\$?\n"), expect("^code=130\$"), expect(prompt)
END
expect_no_process_left
