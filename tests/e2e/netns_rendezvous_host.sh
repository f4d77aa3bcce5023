#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The host with the endpoint's address hosts the rendezvous, however the address is written; is_host
# overrides it if the address does not exist yet.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2
program='echo "rank $RANK"; exec sleep 600'
listens_at() {
  ip netns exec "$net-$1" cat /proc/net/tcp /proc/net/tcp6 |
    awk -v at="$2:7$3" '$4 == "0A" && $2 == at { found = 1 } END { exit !found }'
}
stop_both() {
  kill -TERM "${pids[@]}"
  for host in "${!pids[@]}"; do on "$host" finish && expect_exit 143; done
  expect_no_process_left
}

for host in 2 1; do
  on "$host" start --nnodes 2 --rdzv_endpoint 10.9.0.2:29500 "${quick[@]}" sh -c "$program"
done
on 2 wait_for_stdout 'rank 0'
on 1 wait_for_stdout 'rank 1'
listens_at 2 0200090A 33C || fail "not at the address that was given"
stop_both

# Two nodes on one host: the second one is the client of the first.
command_prefix[other]=${command_prefix[1]}
unset 'pids[2]'
for endpoint in localhost:29500 '[::1]:29500' 127.0.0.1:29500; do
  for node in 1 other; do
    on "$node" start --nnodes 2 --rdzv_endpoint "$endpoint" "${quick[@]}" sh -c "$program"
  done
  for node in 1 other; do on "$node" wait_for_stdout 'rank [01]'; done
  listens_at 1 00000000 33C && fail "it listens at every address"
  stop_both
done

# An address that does not exist yet, such as a service's: it listens on all addresses.
unset 'pids[other]'
on 1 start --nnodes 2 --rdzv_endpoint 10.9.0.77:29500 --rdzv_conf is_host=true "${quick[@]}" \
  sh -c "$program"
on 2 start --nnodes 2 --rdzv_endpoint 10.9.0.77:29500 "${quick[@]}" sh -c "$program"
wait_for_stderr 'waiting [0-9.]+ s for the master at 10.9.0.77:29500'
ip -n "$net-1" addr add 10.9.0.77/24 dev eth0
on 1 wait_for_stdout 'rank 0'
on 2 wait_for_stdout 'rank 1'
stop_both
