#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training goes from four workers to three and back, as a node is lost in the middle of an epoch and
# joins again: each time from the last checkpoint, and to the same loss as one worker without
# failures.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
epochs=100
train=("$DDPRUN_BIN/train_digits" --epochs "$epochs")
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)

last_loss() { sed -n "s|^.*epoch $epochs/$epochs *loss \([0-9.]*\) .*\$|\1|p" "$out"; }
start_node() {  # start_node NAME WORKERS OPTIONS...
  on "$1" start "${job[@]}" --nproc_per_node "${@:2}" "${train[@]}" --checkpoint "$work/digits.ckpt"
}
hold() {  # hold NAME RANK: stops it, so that no epoch can end
  on "$1"
  kill -STOP "$(worker_of "$2")"
}
more_lines() {  # more_lines COUNT FILE REGEX: whether more than COUNT match
  [ "$(grep -c -- "$3" "$2" || true)" -gt "$1" ]
}
lines() {  # lines FILE REGEX
  grep -c -- "$2" "$1" || true
}

run "${train[@]}"
expect_exit 0
undisturbed=$(last_loss)
[ -n "$undisturbed" ] || fail "no loss of the last epoch"

start_node a 3
wait_for_event job_started
start_node b 1 --rdzv_conf is_host=false
on a wait_for_event round_ready '"world_size":4,'
wait_until more_lines "$(lines "$out" 'loss')" "$out" 'loss'  # an epoch of the four
hold b 3
on a
resumed=$(lines "$out" 'resumed after epoch')
on b
kill -KILL "$(agent_of)"
finish

on a wait_for_event round_ready '"world_size":3,'
wait_until more_lines "$resumed" "$out" 'resumed after epoch'
wait_until more_lines "$(lines "$out" 'loss')" "$out" 'loss'  # one of the three
hold a 1
start_node b 1 --rdzv_conf is_host=false

for node in a b; do on "$node" finish && expect_exit 0; done
on a
[ "$(grep -o '"world_size":[0-9]*' "$events" | uniq | tail -n 3 | tr -dc '0-9\n' | xargs)" = '4 3 4' ] ||
  fail 'not four workers, three, four'
expect_no_stderr 'restart [0-9]'
loss=$(last_loss)
awk -v a="$undisturbed" -v b="$loss" \
  'BEGIN { d = a - b; if (d < 0) d = -d; exit !(b > 0 && d <= 1e-4 * a) }' ||
  fail "loss $loss, undisturbed $undisturbed"
expect_no_process_left
