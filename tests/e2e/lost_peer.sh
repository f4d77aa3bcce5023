#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank whose connections close before its process ends is the one that failed first, though others have lost it
# and ended before; on one node and on two. Without such a rank the first that ended is named.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Rank 1 says why it fails, lets the others lose it, and ends after them.
cat >"$work/train" <<'SH'
#!/bin/bash
lost="all_reduce failed: Connection closed by peer"
case $RANK in
  0) until [ -e "$1/closed" ]; do sleep 0.02; done; echo "$lost" >&2; echo $$ >"$1/lost"; exit 1 ;;
  1) echo "loss is nan" >&2; touch "$1/closed"
     until [ -s "$1/lost" ]; do sleep 0.02; done
     while kill -0 "$(<"$1/lost")" 2>/dev/null; do sleep 0.02; done; exit 7 ;;
  *) exec sleep 600 ;;
esac
SH
chmod +x "$work/train"

run --nproc_per_node 3 "$work/train" "$work"
expect_exit 7
expect_stderr '^ddprun: rank 1 failed first: exit 7 '
expect_stderr '^ +rank 0 failed too \(exit 1\)$'
expect_no_process_left

rm "$work/closed" "$work/lost"
for node in 0 1; do
  on $node start --nnodes 2 --node_rank $node --rdzv_endpoint "$here:29500" "${quick[@]}" "$work/train" "$work"
done
for node in 0 1; do
  on $node finish
  expect_exit 7
  expect_stderr 'rank 1 failed first: exit 7 '
  expect_stderr '^ +rank 0 failed too \(exit 1\)$'
done
same_report 0 1
expect_no_process_left

# No worker knows better: all have ended, or no running one fails.
on only run --nproc_per_node 2 sh -c 'echo "lost rank 7" >&2; exit $((RANK + 3))'
[ "$code" = 3 ] || [ "$code" = 4 ] || fail "exit code $code"
expect_stderr "^ddprun: rank $((code - 3)) failed first: exit $code "
run --nproc_per_node 2 sh -c '[ $RANK = 1 ] || exec sleep 600; echo "socket closed" >&2; exit 5'
expect_exit 5
expect_stderr '^ddprun: rank 1 failed first: exit 5 '
expect_no_process_left
