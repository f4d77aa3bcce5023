#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --store tunnel: workers of two hosts use the store, and who reads all that passes between the hosts finds
# neither a key nor a value; nobody gets to the store at the master's port, nor another user at the agent's.
# Groups of ddp connect across the hosts, and after a restart the store is empty.
. "$(dirname "${BASH_SOURCE[0]}")/netns_attackers.sh"
"$DDPRUN" secret "$work/secret" || fail "no secret"
job=(--nnodes 2 --rdzv_id attacked "${quick[@]}" --lease 60 --secret_file "$work/secret" --store tunnel)

for host in 1 2; do attack "sniffer$host" "$host" sniff eth0 "$work/packets.$host"; done
attack between 4 between 29500 10.9.0.1 29500 "$recordings"
# shellcheck disable=SC2016
worker=(sh -c 'echo "entrance $MASTER_ADDR $MASTER_PORT of $DDPRUN_MASTER_ADDR $DDPRUN_MASTER_PORT"
               exec python3 "$0" worker "$MASTER_ADDR" "$MASTER_PORT" "$1"' "$attacker" "$work")
on 1 start "${job[@]}" --web=10.9.0.1:8080 --rdzv_endpoint node1 "${worker[@]}"
wait_for_event job_started
for host in 1 2; do wait_until has_line "sniffer$host" sniffs; done
on 2 start "${job[@]}" --rdzv_endpoint node4 "${worker[@]}"
for node in 1 2; do on "$node" wait_for_stdout 'runs'; done
on 1 expect_stdout 'entrance 127.0.0.1 [0-9]+ of node1 29500'
on 2 expect_stdout 'entrance 127.0.0.1 [0-9]+ of node4 29500'
attack stranger 3 port 10.9.0.1 29500 attacked "$recordings"
attack user_of_master 1 port 10.9.0.1 29500 attacked "$recordings" 54321
for node in 1 2; do
  on "$node"
  entrance=$(sed -n 's/.*entrance 127.0.0.1 \([0-9]*\) .*/\1/p' "$out")
  attack "user_of_entrance$node" "$node" port 127.0.0.1 "$entrance" attacked "$recordings" 54321
done
for each in stranger user_of_master user_of_entrance1 user_of_entrance2; do
  wait_until has_line "$each" "done"
  ! grep ' in$' "$work/$each.out" || fail "$each got in"
done
${command_prefix[2]} python3 -c 'import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"in-the-clear", ("10.9.0.1", 9))'
for host in 1 2; do on 1 wait_until grep -qsa 'in-the-clear' "$work/packets.$host"; done
on 1 wait_for_stderr 'token='
token=$(sed -n 's/.*token=\([0-9a-f]*\).*/\1/p' "$err")
${command_prefix[2]} python3 -c 'import sys, urllib.request
urllib.request.urlopen("http://10.9.0.1:8080/metrics?token=" + sys.argv[1]).read()' "$token"
on 1 wait_until grep -qsa "$token" "$work/packets.1"  # the page is not encrypted, as is said
touch "$work/finish"
for node in 1 2; do
  on "$node" finish
  expect_exit 0
  expect_stdout 'value weights'
  expect_no_stderr 'is gone|is lost|Sanitizer'
done
on 1 expect_stderr 'store: refused 10\.9\.0\.[13]: .* \(--store tunnel\)'
for host in 1 2; do
  ! grep -qaE 'known-only-here|weights' "$work/packets.$host" || fail "host $host: the store can be read"
done
[ "$(cat "$recordings"/*.agent | wc -c)" -gt 0 ] || fail "nothing was recorded"
! grep -rqE 'known-only-here|weights' "$recordings" || fail "the tunnel can be read"
stop_attackers
wait "${processes[@]}" 2>/dev/null || true
processes=()

# shellcheck disable=SC2016
train='[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || [ "$RANK" = 0 ] || exit 3; exec "$0" --epochs 3'
for node in 1 2; do
  on "$node" start "${job[@]}" --rdzv_endpoint node1 --max_restarts 1 sh -c "$train" "$DDPRUN_BIN/train_digits"
done
for node in 1 2; do on "$node" finish && expect_exit 0; done
on 1 expect_stdout 'epoch 3/3'
expect_no_process_left
