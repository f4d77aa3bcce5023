#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several workers on a terminal have one each, of its size without the prefix; lines stay whole, prompts are shown.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/asks" <<'PY'
import os
if os.environ["RANK"] == "0":
    print("hello", input("name? "))
PY
cat >"$work/size" <<'SH'
#!/bin/bash
trap 'stty size <&1' WINCH
stty size <&1
until [ -e "$1" ]; do sleep 0.05; done
SH
chmod +x "$work/size"

on_terminal <<END
resize(30, 100)
type("$DDPRUN --nproc_per_node 2 $work/size $work/end\n")
for _ in range(2):
    expect(r"^\[[01]\] 30 96\$")
resize(40, 50)
for _ in range(2):
    expect(r"^\[[01]\] 40 46\$")
open("$work/end", "w")
expect(prompt)

type("$DDPRUN --nproc_per_node 2 python3 $work/asks\n")
expect(r"^\[0\] name\\? "), type("you\n")
expect(r"^\[0\] hello you\$"), expect(prompt)

type("$DDPRUN --nproc_per_node 64 sh -c 'test -t 1 && test -t 2 && seq 100' | cat >$work/piped; echo ended\n")
expect("^ended\$"), expect(prompt)
type("$DDPRUN --nproc_per_node 64 sh -c 'test -t 1 && test -t 2 && seq 100; echo end >&2'\n")
screen = expect(prompt)
lines = screen.split("\n")
check(sum(line.endswith("] 100") for line in lines) == 64, "lines are lost")
check(sum(line.endswith("] end") for line in lines) == 64, "lines are lost")
END
[ ! -s "$work/piped" ] || fail "a worker whose output is piped has a terminal"
expect_no_process_left
