#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Launch scripts for torchrun rely on more than its flags: PET_ variables alone start a job, and stay
# in the workers' environment; the macro of the local rank; the dashes after a script.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
DDPRUN=$(realpath "$DDPRUN")
cd "$work"
cat >show.py <<'END'
import os, sys
print(os.environ["RANK"], os.environ.get("PET_NPROC_PER_NODE"), os.environ["LOCAL_RANK"], sys.argv[1:])
END

PET_NPROC_PER_NODE=2 PET_NNODES=1 PET_RDZV_ID=7 PET_MAX_RESTARTS=1 PET_NO_PYTHON=1 PET_MODULE=0 \
  PET_MONITOR_INTERVAL=1 PET_START_METHOD=spawn \
  run sh -c 'echo "$RANK of $WORLD_SIZE, id $TORCHELASTIC_RUN_ID, restarts $TORCHELASTIC_MAX_RESTARTS"'
expect_exit 0
expect_stdout '^\[0\] 0 of 2, id 7, restarts 1$'
expect_stdout '^\[1\] 1 of 2, id 7, restarts 1$'
expect_no_process_left

PET_NO_PYTHON=1 PET_MODULE=1 run show.py
expect_exit 2
expect_stderr '^ddprun: --module is run by python, which --no_python forbids'
expect_no_process_left

PET_MAX_RESTARTS=many run show.py
expect_exit 2
[ "$(wc -l <"$err")" = 1 ] || fail "not one line"
expect_stderr '^ddprun: PET_MAX_RESTARTS expects a number'
expect_no_process_left

# The workers inherit these variables, and flags override them.
PET_NPROC_PER_NODE=3 run --nproc-per-node=2 show.py -- --log '${local_rank}' '$$' '$${local_rank}' '$HOME'
expect_exit 0
for rank in 0 1; do
  expect_stdout "^\[$rank\] $rank 3 $rank \['--log', '$rank', '\\$\\$', '\\$\\{local_rank\\}', '\\\$HOME'\]$"
done
expect_no_process_left

# A program that is executed directly keeps all arguments, and the macro works there, too.
run --nproc_per_node 2 printf '<%s>' -- x '${local_rank}'
expect_stdout '^\[1\] <--><x><1>'
expect_no_process_left

# One node of up to two, which joins alone.
run --nnodes=1:2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint="$here:29500" --rdzv-id=9 \
  --rdzv-conf=join_timeout=60,last_call_timeout=0,timeout=60 --node_rank=1 --max-restarts=0 \
  show.py x
expect_exit 0
expect_stdout "^\[1\] 1 None 1 \['x'\]$"
expect_no_process_left
