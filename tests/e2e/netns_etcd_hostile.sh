#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An administrator, or a frozen host, disturbs an election while a job runs: etcd is compacted, and restored from a
# snapshot that is older than the state; the master's key is deleted, its lease is revoked; the master's agent stands
# still for longer than its key lives. The job continues, and no two rounds run at once.
DDPRUN_TEST_DEADLINE=${DDPRUN_TEST_DEADLINE:-120}  # for all of it
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
hosts 4 4
start_etcd 1 10.9.0.4 ip netns exec "$net-4"
id=hostile
job=(--rdzv_backend etcd --rdzv_endpoint "$(etcd_endpoints)" --rdzv_id "$id" --nnodes 2
     "${quick[@]}" --max_restarts 9 bash -c "$stamper" "$work")

round() {  # of this node
  grep -F '"round_ready"' "$events" | tail -n 1 | sed -n 's/.*"round":\([0-9]*\),.*/\1/p'
}
is_in_later_round() { [[ $(round) -gt $1 ]] && has_event worker_started "\"round\":$(round),"; }
pair=(1 2)
both_in_later_round() { for host in "${pair[@]}"; do on "$host" wait_until is_in_later_round "$1"; done; }
latest() { cat "$work"/.[123].events | sed -n 's/.*"round_ready".*"round":\([0-9]*\),.*/\1/p' | sort -n | tail -n 1; }
key() { ctl get "/ddprun/$id/$1" "${@:2}"; }
lease_of_master() { key master -w json | sed -n 's/.*"lease":\([0-9]*\).*/\1/p'; }
elected() { cat "$work"/.[12].stderr | grep -c 'this node is the master'; }
is_elected_again() { [ "$(elected)" -gt "$1" ]; }
master() {  # the host
  cat "$work"/.[123].events | grep '"round_ready"' | grep "\"round\":$(latest)," |
    sed -n 's/.*"master_addr":"10.9.0.\([12]\)".*/\1/p' | tail -n 1
}

for host in 1 2; do on "$host" start "${job[@]}"; done
for host in 1 2; do on "$host" wait_for_event worker_started; done

# Nothing here is read at an old revision.
revision=$(key master -w json | sed 's/.*"revision":\([0-9]*\).*/\1/;q')
ctl compact "$revision" >/dev/null || fail 'etcd was not compacted'

# The snapshot has the master's key, and an earlier state than the one that the master has written.
kills_worker() {
  now=$(latest)
  kill -KILL "$(worker_of)" 2>/dev/null
}
fail_worker() {  # the next round follows; there may be no worker yet, after an outage
  on 1 wait_until kills_worker
  both_in_later_round "$now"
}
ctl snapshot save "$work/snapshot" &>"$work/saved" || fail "$(cat "$work/saved")"
fail_worker
stop_etcd 1
rm -r "$work/etcd1"
ETCDCTL_API=3 etcdctl snapshot restore "$work/snapshot" --name s1 --data-dir "$work/etcd1" \
  --initial-cluster "$etcd_cluster" --initial-advertise-peer-urls "$(etcd_url 1 peer)" &>"$work/restored" ||
  fail "$(cat "$work/restored")"
start_etcd_server 1
wait_until_etcd_answers
fail_worker

now=$(latest)
ctl del "/ddprun/$id/master" >/dev/null
both_in_later_round "$now"
cat "$work"/.[12].stderr | grep "any more: its key in etcd was deleted" >/dev/null || fail 'it did not step down'

now=$(latest)
ctl lease revoke "$(printf %x "$(lease_of_master)")" >/dev/null
both_in_later_round "$now"

now=$(latest)
before=$(elected)
on "$(master)"
frozen=$name
kill -STOP "$(agent_of)"
on $((3 - frozen)) wait_until is_elected_again "$before"
on "$frozen" finish  # its guardian has killed it, and its workers, when their lease was over
expect_exit 137
on 3 start "${job[@]}"
pair=($((3 - frozen)) 3)
both_in_later_round "$now"

: >"$work/finish"
for host in "${pair[@]}"; do
  on "$host" finish
  expect_exit 0
done
expect_no_two_rounds
end_etcd
expect_no_process_left
