#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When an interface goes down and comes up again within the lease, on the master's host or another
# one, the workers run on.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 3 4
job=(--nnodes 3 --rdzv_endpoint node1:29500 --heartbeat_interval 0.5 --lease 600)
program='echo "up"; until [ -e "$0/finish" ]; do sleep 0.05; done'

for host in 1 2 3; do on "$host" start "${job[@]}" sh -c "$program" "$work"; done
for host in 1 2 3; do on "$host" wait_for_stdout up; done
# A connection may be lost twice in one outage, as both ends make new ones.
count() { grep -c "$1" "$err" || true; }
more() { [ "$(count "$2")" -gt "$1" ]; }
on 2
for down in 2 1; do
  lost=$(count 'the workers run on')
  ip -n "$net-$down" link set eth0 down
  wait_until more "$lost" 'the workers run on'
  found=$(count 'is reachable again after')
  ip -n "$net-$down" link set eth0 up
  wait_until more "$found" 'the master at node1:29500 is reachable again after'
done
: >"$work/finish"
for host in 1 2 3; do
  on "$host" finish
  expect_exit 0
  [ "$(grep -c round_ready "$events")" = 1 ] || fail "another round"
done
expect_no_process_left
