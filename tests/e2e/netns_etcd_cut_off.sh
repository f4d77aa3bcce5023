#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The master is cut off from etcd alone, and then a master's host from all others: it steps down, its
# workers and those of the others are killed in time, and no two rounds run at once.
DDPRUN_TEST_DEADLINE=${DDPRUN_TEST_DEADLINE:-120}  # for both together
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
hosts 4 4
start_etcd 1 10.9.0.4 ip netns exec "$net-4"
job=(--rdzv_backend etcd --rdzv_endpoint "$(etcd_endpoints)" --rdzv_id cut --nnodes 2:3
     "${quick[@]}" --max_restarts 5 --last_call_timeout 30s bash -c "$stamper" "$work")

is_with_three() { grep -F '"round_ready"' "$events" | tail -n 1 | grep -q '"node_count":3,'; }
all_three() { for host in 1 2 3; do on "$host" wait_until is_with_three; done; }
field() {  # field NAME: in the latest round of this node
  grep -F '"round_ready"' "$events" | tail -n 1 | sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"]*\).*/\1/p"
}
is_in_later_round() { [ "$(field round)" -gt "$1" ] && has_event worker_started "\"round\":$(field round),"; }
find_master() {
  on 1 true
  now=$(field round) master=$(field master_addr)
  master=${master##*.} others=()
  for host in 1 2 3; do [ "$host" = "$master" ] || others+=("$host"); done
}
has_stepped_down() { grep -q "is not the master of job 'cut' any more: no answer of etcd for 6 s" "$err"; }
is_another() { cat "$work"/.["${others[0]}${others[1]}"].stderr | grep 'this node is the master' >/dev/null; }

for host in 1 2 3; do on "$host" start "${job[@]}"; done
all_three

find_master
ip -n "$net-$master" route add blackhole 10.9.0.4/32
on "$master" wait_until has_stepped_down
on "${others[0]}" wait_until is_another
ip -n "$net-$master" route del blackhole 10.9.0.4/32
for host in 1 2 3; do on "$host" wait_until is_in_later_round "$now"; done
all_three

find_master
unplug "$master"
for host in "${others[@]}"; do on "$host" wait_until is_in_later_round "$now"; done
on "$master" wait_for_stderr 'killing this node.s workers'
plug "$master"
for host in 1 2 3; do on "$host" wait_until is_in_later_round "$now"; done
all_three

: >"$work/finish"
for host in 1 2 3; do
  on "$host" finish
  expect_exit 0
done
expect_no_two_rounds
end_etcd
expect_no_process_left
