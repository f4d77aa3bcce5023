#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each node tells the master that its workers have stopped; when all have, the round has failed, and all nodes
# get the same report of what each rank did.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkfifo "$work/collective"
export work
# shellcheck disable=SC2016
job=(--nnodes 2 --rdzv_endpoint "$here:29500" --hang_timeout 6 "${quick[@]}" bash -c '
  echo "waits"  # from then on the time is counted, however long they took to start
  [ "$RANK" = 1 ] && exec sleep 3600
  exec cat <>"$work/collective"')
on a start --node_rank 0 "${job[@]}"
on b start --node_rank 1 "${job[@]}"
for node in a b; do
  on $node finish
  on $node expect_exit 124
  on $node expect_stderr 'no rank has made progress for .* \(round 0\) \(--hang_timeout\)'
  on $node expect_stderr 'rank 1 \(.*\) is the likely cause: asleep .*, while rank 0 waited'
  on $node expect_stderr 'rank 0 \(.*\): waiting \(read\)'
done
expect_no_process_left
