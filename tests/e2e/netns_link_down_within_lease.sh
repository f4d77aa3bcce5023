#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A link that is down for less than the lease changes nothing: no restart, no new round, the same
# workers; messages arrive when it is up again.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2
job=(--nnodes 2 --rdzv_endpoint node1:29500 --heartbeat_interval 0.5 --lease 600)
program='echo "up"; until [ -e "$0/finish" ]; do sleep 0.05; done'

for host in 2 1; do on "$host" start "${job[@]}" sh -c "$program" "$work"; done
for host in 1 2; do on "$host" wait_for_stdout up; done
unplug 2
on 2 wait_for_stderr 'the master at node1:29500 is silent for .*; the workers run on for up to [0-9.]+ (min|s) '
: >"$work/finish"
wait_for_event worker_ended '"code":0,'  # the master is not notified
plug 2
for host in 2 1; do
  on "$host" finish
  expect_exit 0
  [ "$(grep -c round_ready "$events")" = 1 ] || fail "another round"
done
on 2 expect_stderr 'the master at node1:29500 is reachable again after'
expect_no_process_left
