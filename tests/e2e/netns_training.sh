#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training on several hosts resumes from its checkpoint with the right loss after a killed worker, a
# killed agent, a link failure and a restart of the master.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 3
train=$DDPRUN_BIN/train_digits
epochs=40

last_loss() { sed -n "s|^.*epoch $epochs/$epochs *loss \([0-9.]*\) .*\$|\1|p" "$out"; }
same_loss() {  # to 1e-4 relative
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 1e-4 * a) }'
}

begin() {  # begin NAME NODES: stops it in the middle of training
  job=(--nnodes "$2" --rdzv_endpoint node1:29500 "${quick[@]}" --max_restarts 5
       --last_call_timeout 1s "$train" --epochs "$epochs" --checkpoint "$work/$1.ckpt")
  disturbed=$1 last=${2#*:}
  for ((host = 1; host <= last; ++host)); do
    on "$host" start "${job[@]}"
    [ "$host" != 1 ] || wait_for_event job_started
  done
  on 2
  stopped=$(worker_of)
  on 1 spin_until_printed 'epoch 2/'
  kill -STOP "$stopped"  # no epoch can end without it
}

# All epochs take less than a second, so no process is started between the line and the signal.
spin_until_printed() {  # spin_until_printed TEXT
  local end=$((SECONDS + deadline)) lines=()
  until [[ "${lines[*]}" == *"$1"* ]]; do
    [ $SECONDS -lt $end ] || fail "timed out after $deadline s waiting for: $1"
    mapfile -t lines <"$out"
  done
}

expect_resumed() {  # expect_resumed HOST...: the remaining hosts
  for host in "$@"; do
    on "$host" finish
    expect_exit 0
  done
  for host in "$@"; do on "$host"; [ -z "$(last_loss)" ] || break; done
  same_loss "$undisturbed" "$(last_loss)" ||
    fail "$disturbed: loss $(last_loss), undisturbed $undisturbed"
  expect_stdout "resumed after epoch [1-9][0-9]*/$epochs"
  expect_no_process_left
}

for host in 1 2; do
  on "$host" start --nnodes 2 --rdzv_endpoint node1:29500 "${quick[@]}" "$train" --epochs "$epochs"
done
for host in 2 1; do on "$host" finish && expect_exit 0; done
undisturbed=$(last_loss)
[ -n "$undisturbed" ] || fail "no loss of the last epoch"
expect_no_process_left

begin 'killed worker' 3
on 2
kill -KILL "$(worker_of)"
expect_resumed 1 2 3
on 3 expect_stderr 'failed first'

begin 'killed agent' 2:3
on 2
kill -KILL "$(agent_of)"
finish
expect_resumed 1 3

begin 'cut link' 2
unplug 2
on 2 wait_for_event worker_ended '"signal":"SIGKILL"'
plug 2
expect_resumed 1 2

begin 'master started again' 2
on 1
kill -KILL "$(agent_of)"
finish
start "${job[@]}"
expect_resumed 1 2
