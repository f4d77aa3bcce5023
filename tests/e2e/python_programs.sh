#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python programs run as under torchrun: scripts and modules, unbuffered, their arguments untouched.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=$(command -v python3) || skip "there is no python3"
unset PYTHONUNBUFFERED PYTHON_EXEC  # ddprun has to make it unbuffered
DDPRUN=$(realpath "$DDPRUN")
cd "$work"
cat >show.py <<'END'
import os, sys
print("rank", os.environ["RANK"], "role", os.environ["ROLE_NAME"], sys.argv)
END
cp show.py shown_module.py

run --nproc_per_node 2 --role trainer show.py --log x --r=16 --mo -m --nproc_per_node 4 ''
expect_exit 0
for rank in 0 1; do
  expect_stdout "^\[$rank\] rank $rank role trainer \['show.py', '--log', 'x', '--r=16', '--mo', '-m', '--nproc_per_node', '4', ''\]$"
done
expect_no_process_left

run -m shown_module --lr 0.1 -h
expect_exit 0
expect_stdout "^rank 0 role default \['$work/shown_module.py', '--lr', '0.1', '-h'\]$"
expect_no_process_left

# Output is there although the script did not flush it.
cat >dies.py <<'END'
import os, signal
print("last words")
os.kill(os.getpid(), signal.SIGKILL)
END
run dies.py
expect_exit 137
expect_stdout '^last words$'
expect_no_process_left

# The local rank is the first argument of the program.
run --nproc_per_node 2 --role reader --prefix '${role_name} ${rank}: ' \
  --pass_local_rank dash show.py --lr 1
expect_stdout "^reader 1: rank 1 role reader \['show.py', '--local-rank=1', '--lr', '1'\]$"
expect_no_process_left

run --nproc_per_node 2 --pass_local_rank underscore -m shown_module
expect_stdout "^\[0\] rank 0 role default \['$work/shown_module.py', '--local_rank=0'\]$"
expect_no_process_left

# With --no_python the script's first line names its interpreter.
printf '#!/bin/sh\necho "executed $1"\n' >own.py
chmod +x own.py
run --no_python ./own.py x
expect_exit 0
expect_stdout '^executed x$'
expect_no_process_left

# PYTHON_EXEC names the interpreter.
printf '#!/bin/sh\necho "instead of python3: $*"\nexec "%s" "$@"\n' "$python" >interpreter
chmod +x interpreter
PYTHON_EXEC=$work/interpreter run show.py x
expect_exit 0
expect_stdout '^instead of python3: -u show.py x$'
expect_stdout "^rank 0 role default \['show.py', 'x'\]$"
expect_no_process_left

# An interpreter or script that cannot run is reported in one line.
run shwo.py
expect_exit 127
[ "$(cat "$err")" = 'ddprun: cannot run shwo.py: no such file (did you mean show.py?)' ] ||
  fail "other words"
expect_no_process_left

mkdir empty
command_prefix[only]="env PATH=$work/empty"
run show.py
expect_exit 127
[ "$(wc -l <"$err")" = 1 ] || fail "not one line"
expect_stderr '^ddprun: cannot run show.py: python3 not found in PATH; PYTHON_EXEC'
expect_no_process_left
