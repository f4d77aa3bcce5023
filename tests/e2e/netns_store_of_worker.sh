#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --store worker: rank 0 serves the store itself, on its host and on the port that all ranks get, also
# when the rendezvous is on another host.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 3 4
train=$DDPRUN_BIN/train_digits
program='echo "store $MASTER_ADDR:$MASTER_PORT of agent: $TORCHELASTIC_USE_AGENT_STORE"; exec "$0" --epochs 3'

for host in 2 1; do
  on "$host" start --nnodes 2 --rdzv_endpoint node1 "${quick[@]}" --store worker \
    sh -c "$program" "$train"
done
for host in 1 2; do
  on "$host" finish
  expect_exit 0
  expect_stdout 'store node1:[0-9]+ of agent: False'
  expect_no_stdout 'store node1:29500'
done
on 1 expect_stdout 'epoch 3/3'

on 3 start serve --rdzv_endpoint :29500 --nnodes 2 "${quick[@]}"
on 2 start --nnodes 2 --rdzv_endpoint node3 "${quick[@]}" --store worker --node_rank 0 \
  sh -c "$program" "$train"
on 1 start --nnodes 2 --rdzv_endpoint node3 "${quick[@]}" --store worker --node_rank 1 \
  sh -c "$program" "$train"
for host in 1 2 3; do on "$host" finish && expect_exit 0; done
for host in 1 2; do on "$host" expect_stdout 'store 10.9.0.2:[0-9]+ of agent: False'; done
on 2 expect_stdout 'epoch 3/3'
expect_no_process_left
