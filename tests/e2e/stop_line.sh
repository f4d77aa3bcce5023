#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After a stop ddprun says which ranks have saved their state, and why others have not.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck disable=SC2016
saving=(bash -c '
  fail() { echo "saving" >&2; echo "OSError: disk of rank $RANK is full" >&2; exit 1; }
  trap "[ $RANK -lt 3 ] || fail; exit 0" TERM INT; touch "$0/up.$RANK"; while :; do sleep 600 & wait; done' "$work")
is_up() { [ "$(find "$work" -name "up.*" | wc -l)" = "$1" ]; }
line='ranks 0-2 ended with exit code 0; rank 3 failed while stopping: exit 1: OSError: disk of rank 3 is full$'
for signal in TERM INT; do
  rm -f "$work"/up.*
  start --nproc_per_node 4 "${saving[@]}"
  wait_until is_up 4
  kill "-$signal" "$ddprun"
  finish
  expect_stderr "^ddprun: $line"
  [ "$(tail -n 1 "$err")" = "$(grep 'while stopping' "$err")" ] || fail 'it is not the last line'
  expect_no_process_left
done

# A second node joins, for which the first one stops its workers.
job=(--nnodes 1:2 --nproc_per_node 2 --rdzv_endpoint "$here:29500" --last_call_timeout 10ms)
rm -f "$work"/up.*
on a start "${job[@]}" "${saving[@]}"
wait_until is_up 2
on b start "${job[@]}" --rdzv_conf is_host=false "${saving[@]}"
wait_until is_up 4
on a expect_stderr 'ranks 0, 1 ended with exit code 0$'
on b
kill -TERM "$ddprun"
finish
expect_stderr 'rank 2 ended with exit code 0; rank 3 failed while stopping: exit 1: OSError: disk of rank 3 is full$'
on a
kill -TERM "$ddprun"
finish
expect_no_process_left

# Programs without a handler need no line.
rm -f "$work"/up.*
start --nproc_per_node 2 sh -c 'touch "$0/up.$RANK"; exec sleep 600' "$work"
wait_until is_up 2
kill -TERM "$ddprun"
finish
expect_stderr 'again to kill them at once$'
expect_no_stderr 'ended|while stopping'
expect_no_process_left
