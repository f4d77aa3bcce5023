#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rendezvous whose own lines cannot be written, because their disk has stalled, serves the nodes.
. "$(dirname "${BASH_SOURCE[0]}")/disk.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}")

disk
on serving
console=$err err=$disk/err
start serve "${job[@]}"
wait_for_event serving
err=$console
freeze
on a start "${job[@]}" --rdzv_conf is_host=false true
wait_for_stderr 'waiting [0-9.]+ s for'  # the rendezvous has written the same, or tried to
on b start "${job[@]}" --rdzv_conf is_host=false true
for node in a b; do
  on $node finish
  expect_exit 0
done
thaw
on serving finish
expect_exit 0
grep -qE 'waiting [0-9.]+ s for' "$disk/err" || fail "a line is lost"
expect_no_process_left
