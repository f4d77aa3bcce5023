#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job of a scheduler whose first two ports are taken on the rendezvous' host, by another job's master
# and by another program, is at its third one, on all nodes alike; with all taken it says who has them.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip 'there is no python3'
hosts 3 4
command_prefix[foreign]=${command_prefix[1]}
step=(SLURM_JOB_ID=4711 SLURM_STEP_ID=0 'SLURM_STEP_NODELIST=node[1-3]' SLURM_STEP_NUM_NODES=3)
for host in 1 2 3; do command_prefix[$host]+=" env ${step[*]}"; done

on 1 run --dry_run true
expect_exit 0
read -ra ports <<<"$(sed -n 's/.*--master_port \([0-9]*\) .* more_ports=\([0-9:]*\) .*/\1 \2/p' "$out" | tr : ' ')"
[ ${#ports[@]} = 4 ] || fail "the dry run shows the ports: $(cat "$out")"

listen='import socket, sys, time
sockets = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("listens", flush=True)
while True:
    sockets[0].accept()[0].sendall(b"SSH-2.0-other\r\n")'
take() {  # take PORT...: another program has them, which says something at the first one
  rm -f "$work/other"
  env "$mark" ip netns exec "$net-1" python3 -c "$listen" "$@" >"$work/other" &
  others=$!
  code=running
  wait_until grep -qs listens "$work/other"
}

on foreign start serve --rdzv_endpoint "node1:${ports[0]}" --rdzv_id another
wait_for_event serving
take "${ports[1]}"
# Whichever comes first: these two look for their master before there is one.
# shellcheck disable=SC2016
for host in 2 3 1; do
  on "$host" start --log_level debug sh -c 'echo "rank $RANK of $WORLD_SIZE: $MASTER_ADDR:$MASTER_PORT"'
  [ "$host" = 1 ] || on foreign wait_for_stderr "refused node$host .*another job"
done
for host in 2 3 1; do
  on "$host" finish
  expect_exit 0
  expect_stdout "rank $((host - 1)) of 3: node1:${ports[2]}$"
done
expect_stderr "slurm job 4711.0: .*--nnodes 3 \(SLURM_STEP_NODELIST\), .*--master_port ${ports[0]} \(by the job\)"
expect_stderr "port ${ports[0]} of this host is taken: trying ${ports[1]}, the job's next one"
expect_stderr "port ${ports[1]} of this host is taken: trying ${ports[2]}, the job's next one"

kill "$others"
wait "$others" 2>/dev/null || true
take "${ports[@]:1}"
on 1 run true
expect_exit 125
expect_stderr "cannot listen on .*:${ports[3]}: Address already in use .*python3 .* has it$"
on 2 run --rdzv_conf join_timeout=8s true
expect_exit 124
for reason in "${ports[0]}: it refused this node: it belongs to another job" \
  "${ports[1]}: it is not a ddprun master" "${ports[2]}(, node1:${ports[3]})?: its port is open, but nothing there answers"; do
  expect_stderr "timed out .*node1:$reason"
done

kill "$others"
wait "$others" 2>/dev/null || true
on foreign true
kill "$ddprun"
finish
expect_no_process_left
