#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The agent with the rendezvous is stopped for longer than the lease: the others kill their workers,
# and when it continues it reads what they sent before it gives anybody up: all join the next round.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# After the lease the guardian gives an agent a tenth of it to kill its workers. On a busy machine 0.4 s are too few.
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" --lease 10)
program='echo up; until [ -e "$0/finish" ]; do sleep 0.05; done'

on master start "${job[@]}" sh -c "$program" "$work"
on other start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
wait_for_stdout up
on master
wait_for_stdout up
agent=$(agent_of)
kill -STOP "$agent"
on other wait_for_event worker_ended '"signal":"SIGKILL"'
sleep 4  # longer than the master would wait for a silent node if it did not stand still itself
kill -CONT "$agent"
for node in master other; do on "$node" wait_for_event round_ready '"round":1,"restarts":0,'; done
on master expect_stderr 'node 1 \(.*\) rejoined without its workers'
on master expect_no_stderr 'silent for'
: >"$work/finish"
for node in master other; do
  on "$node" finish
  expect_exit 0
done
expect_no_process_left
