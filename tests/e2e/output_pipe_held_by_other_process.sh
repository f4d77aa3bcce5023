#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that ddprun did not start, but that holds a worker's output pipe open, does not delay
# ddprun: here it is this script.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkfifo "$work/go"
start --nproc_per_node 2 --max_restarts 1 sh -c '
  [ $RANK.$TORCHELASTIC_RESTART_COUNT = 0.0 ] || exit 0
  echo ready
  read -r code <"$1" && seq 100000 && exit $code' - "$work/go"
wait_until grep -q '\[0\] ready' "$out"
pid=$(worker_of 0)
exec 3>"/proc/$pid/fd/1"
echo 3 >"$work/go"
finish
exec 3>&-
expect_exit 0
[ "$(grep -c '^\[0\] [0-9]*$' "$out")" = 100000 ] || fail "lines are lost"
expect_no_process_left
