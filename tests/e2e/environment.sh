#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers find what torchrun's users expect in their environment.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 3 --max_restarts 4 sh -c '
  echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE" \
       "$ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $TORCHELASTIC_RESTART_COUNT" \
       "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_USE_AGENT_STORE $OMP_NUM_THREADS" \
       "$MASTER_ADDR ${MASTER_PORT:+port}"'
expect_exit 0
for rank in 0 1 2; do
  expect_stdout "^\[$rank\] $rank $rank 3 3 0 1 default $rank 3 0 4 True 1 127.0.0.1 port$"
done
[ "$(grep -c OMP_NUM_THREADS "$err")" = 1 ] || fail "OMP_NUM_THREADS was not reported once"
expect_no_process_left

OMP_NUM_THREADS=5 run --nproc_per_node 2 sh -c 'echo "threads $OMP_NUM_THREADS"'
expect_stdout '^\[1\] threads 5$'
expect_no_stderr OMP_NUM_THREADS
expect_no_process_left

run --nproc_per_node 2 --store worker sh -c 'echo "store $TORCHELASTIC_USE_AGENT_STORE"'
expect_stdout '^\[0\] store False$'
expect_no_process_left

CUDA_VISIBLE_DEVICES=7,GPU-aa,3,2 run --nproc_per_node 2 --gpu_bind isolate \
  sh -c 'echo "gpus $CUDA_VISIBLE_DEVICES"'
expect_stdout '^\[0\] gpus 7,GPU-aa$'
expect_stdout '^\[1\] gpus 3,2$'
expect_no_process_left

# A port that was given is the same in every round. It is below those that the kernel gives to connections.
is_free() { ! (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=$((20000 + RANDOM % 9000))
until is_free "$port"; do port=$((20000 + RANDOM % 9000)); done
run --nproc_per_node 1 --max_restarts 3 --master_port "$port" sh -c '
  echo "port $MASTER_PORT"; [ "$TORCHELASTIC_RESTART_COUNT" = 3 ]'
expect_exit 0
[ "$(grep -c "^port $port$" "$out")" = 4 ] || fail "not the given port each time"
expect_no_process_left
