#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Command lines of `python -m torch.distributed.launch`, with ddprun in its place.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/distributed_launch.py
add_launcher launch "$python" -W ignore -m torch.distributed.launch

lines() { sed 's/^\[[0-9]*\] //' "$out" | sort; }  # without prefixes
by_argument='rank 0 of 2: local rank 0, lr 0.1
rank 1 of 2: local rank 1, lr 0.1'
by_environment='rank 0 of 2: local rank -1, lr 0.1
rank 1 of 2: local rank -1, lr 0.1'

expect_lines() {
  expect_exit 0
  [ "$(lines)" = "$1" ] || fail "not: $1"
}

line=(--nproc_per_node=2 --nnodes=1 --node_rank=0 --master_addr=127.0.0.1)
for launcher in $(reference_launcher); do
  under "${launcher/torchrun/launch}" "${line[@]}" "$program" --lr 0.1
  expect_lines "$by_argument"
  under "${launcher/torchrun/launch}" "${line[@]}" --use_env "$program" --lr 0.1
  expect_lines "$by_environment"
done
under ddprun launch "${line[@]}" "$program" --lr 0.1
expect_lines "$by_argument"
under ddprun launch "${line[@]}" --use_env "$program" --lr 0.1
expect_lines "$by_environment"
for style in dash underscore; do
  under ddprun "${line[@]}" --pass_local_rank "$style" "$program" --lr 0.1
  expect_lines "$by_argument"
done
for option in '' --use_env; do
  under ddprun "${line[@]}" $option "$program" --lr 0.1
  expect_lines "$by_environment"
done
expect_no_process_left
