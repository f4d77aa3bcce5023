#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two of five hosts are cut off for longer than the lease: they kill their workers before the others
# start a new round, and join again when the links are back; and so with what the workers have put into sessions of
# their own, also if its main thread has ended.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 5
job=(--nnodes 3:5 --rdzv_endpoint 10.9.0.1:29500 "${quick[@]}" --last_call_timeout 1s)

export DDPRUN_BIN
# shellcheck disable=SC2016  # the worker's shell
odd='setsid "$DDPRUN_BIN/odd_process" main_thread_gone & echo $! >"$0/odd.$!"'
for host in 1 2 3 4 5; do on "$host" start "${job[@]}" bash -c "$odd; $stamper" "$work"; done
for host in 1 2 3 4 5; do on "$host" wait_for_event round_ready '"node_count":5,'; done
for host in 1 2 3 4 5; do on "$host" wait_for_stdout 'main_thread_gone is ready'; done
for host in 1 2 4; do on "$host" only_later_events; done
odd_before=$(cat "$work"/odd.*)
unplug 3
unplug 5
for host in 1 2 4; do on "$host" wait_for_event round_ready '"node_count":3,'; done
for each in $odd_before; do [ ! -e "/proc/$each" ] || fail "two rounds have processes: $each"; done
expect_stderr 'node [0-9] \(node[35]\) is gone: silent for .* \(--lease 4 s\)'
for host in 3 5; do
  on "$host" expect_stderr 'for 4 s \(--lease\): killing this node.s workers'
  [ ! -e "/proc/$(worker_of)" ] || fail "two rounds have workers"
done
for host in 1 2 4; do on "$host" only_later_events; done
plug 3
plug 5
for host in 1 2 4; do on "$host" wait_for_event round_ready '"node_count":5,'; done
: >"$work/finish"
for host in 1 2 3 4 5; do
  on "$host" finish
  expect_exit 0
  expect_no_stderr 'restart [0-9]'
done
expect_no_two_rounds
expect_no_process_left
