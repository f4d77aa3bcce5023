#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun serve hosts the rendezvous outside the job: any node may be lost, also the first; it can be
# restarted itself; and it ends as the job does.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" --rdzv_id night "${quick[@]}" --nnodes 2 --max_restarts 2)
program='echo "restart $TORCHELASTIC_RESTART_COUNT"
  case $TORCHELASTIC_RESTART_COUNT in
    0) [ "$RANK" = 1 ] && exit 1 ;;
    1) until [ -e "$0/fail" ]; do sleep 0.05; done; [ "$RANK" = 0 ] && exit 6 ;;
    2) until [ -e "$0/last" ]; do sleep 0.05; done; [ "$RANK" = 0 ] && exit 7 ;;
  esac
  exec sleep 600'

on serve start serve "${at[@]}"
wait_for_event serving
expect_stderr "serving the rendezvous of job 'night' at $here:29500"
for node in a b; do on "$node" start "${at[@]}" sh -c "$program" "$work"; done
for node in a b; do on "$node" wait_for_event round_ready '"round":1,"restarts":1,'; done

on serve
kill -KILL "$(agent_of)"
finish
start serve "${at[@]}"
for node in a b; do on "$node" wait_for_event round_ready '"round":2,"restarts":1,'; done

on a
kill -KILL "$(agent_of)"
finish
on c start "${at[@]}" sh -c "$program" "$work"
on b wait_for_event round_ready '"round":3,"restarts":1,'
: >"$work/fail"
on b wait_for_event round_ready '"round":4,"restarts":2,'
: >"$work/last"
for node in b c serve; do
  on "$node" finish
  expect_exit 7
done
same_report b c serve
on b expect_stderr 'no restart left \(2 of 2 used\)'
expect_no_process_left
