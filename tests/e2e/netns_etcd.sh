#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The host of the master vanishes for good, again and again, and so does the leader of etcd: the
# training continues with the nodes that are left, and with new ones, and ends with the right loss.
# DDPRUN_ETCD_LOSSES: how often; figures are printed.
losses=${DDPRUN_ETCD_LOSSES:-2}
DDPRUN_TEST_DEADLINE=${DDPRUN_TEST_DEADLINE:-$((120 + 40 * losses))}  # for all losses together
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
hosts 4 4
start_etcd 3 10.9.0.4 ip netns exec "$net-4"
epochs=$((10 * losses + 20))  # ten after each loss, and some once all hosts are back
train=("$DDPRUN_BIN/train_digits")
# However slow the test is beside it, no training runs ahead: a round trains up to the epoch that the file for its
# number of nodes has, and waits.
program='limit=$(cat "$0/epochs.$WORLD_SIZE")
  [ "$limit" != "$1" ] || exec "$2" --epochs "$limit" --checkpoint "$0/ckpt"
  "$2" --epochs "$limit" --checkpoint "$0/ckpt" || exit
  echo "waits after epoch $limit"
  exec sleep 1000'
job=(--rdzv_backend etcd --rdzv_endpoint "$(etcd_endpoints)" --rdzv_id digits --nnodes 2:3
     "${quick[@]}" --last_call_timeout 1s sh -c "$program" "$work" "$epochs" "${train[@]}")

last_loss() { sed -n "s|^.*epoch $epochs/$epochs *loss \([0-9.]*\) .*\$|\1|p" "$out"; }
same_loss() {  # to 1e-4 relative
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 1e-4 * a) }'
}
# The latest round that any host is in, and the host of its master.
round() {
  cat "$work"/.[123].events | sed -n 's/.*"round_ready".*"round":\([0-9]*\),.*/\1/p' | sort -n | tail -n 1
}
master_in() {
  cat "$work"/.[123].events |
    sed -n "s/.*\"round_ready\".*\"round\":$1,.*\"master_addr\":\"10.9.0.\([123]\)\".*/\1/p" | tail -n 1
}
is_in_later_round() { [ "$(round)" -gt "$1" ] && has_event worker_started "\"round\":$(round),"; }
is_with_three() { grep -F '"round_ready"' "$events" | tail -n 1 | grep -q '"node_count":3,'; }
waits_after() { grep -q "waits after epoch $1\$" "$out"; }

on 1 run "${train[@]}" --epochs "$epochs"
undisturbed=$(last_loss)
done_epochs=10
echo 5 >"$work/epochs.2"
echo "$done_epochs" >"$work/epochs.3"
for host in 1 2 3; do on "$host" start "${job[@]}"; done
for ((loss = 1; loss <= losses; ++loss)); do
  for host in 1 2 3; do on "$host" wait_until is_with_three; done
  for host in 1 2 3; do on "$host" wait_until waits_after "$done_epochs"; done
  now=$(round) lost=$(master_in "$(round)")
  [ "$loss" != 2 ] || stop_etcd "$(etcd_leader)"
  rest=()
  for host in 1 2 3; do [ "$host" = "$lost" ] || rest+=("$host"); done
  echo $((done_epochs + 5)) >"$work/epochs.2"
  on "$lost"
  unplug "$lost"
  kill -KILL "$ddprun" "$(agent_of)" "$(worker_of)" 2>/dev/null || true  # the first may take the others with it
  began=$EPOCHREALTIME
  finish
  for host in "${rest[@]}"; do on "$host" wait_until is_in_later_round "$now"; done
  awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "the next round ran %.1f s after the loss of the master (--lease 4 s, key 12 s)\n", b - a }'
  for host in "${rest[@]}"; do on "$host" wait_until waits_after $((done_epochs + 5)); done
  done_epochs=$((loss < losses ? done_epochs + 10 : epochs))
  echo "$done_epochs" >"$work/epochs.3"
  plug "$lost"
  on "$lost" start "${job[@]}"  # in the place of the host that was lost
done
for host in 1 2 3; do
  on "$host" finish
  expect_exit 0
  expect_no_stderr 'restart [0-9]'
done
for host in 1 2 3; do on "$host"; [ -z "$(last_loss)" ] || break; done
same_loss "$undisturbed" "$(last_loss)" || fail "loss $(last_loss), undisturbed $undisturbed"
expect_stdout "resumed after epoch [1-9][0-9]*/$epochs"
end_etcd
expect_no_process_left
