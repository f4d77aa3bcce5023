#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job with a secret: nodes that have it run, whatever their clocks say, others are refused, and it is nowhere to be
# seen. A certificate makes no master. When an agent is killed its guardian, which has to encrypt, too, tells the master at once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2:3 --rdzv_endpoint "$here:29500" --last_call_timeout 600 --heartbeat_interval 60
     --lease 600 --max_restarts 3)
worker=(sh -c 'env >"$0/env.$RANK"; exec sleep 600' "$work")
for each in ours other; do "$DDPRUN" secret "$work/$each" || fail "no secret"; done
secret=$(cat "$work/ours")
[ ${#secret} = 64 ] && [ "$(stat -c %a "$work/ours")" = 600 ] || fail "not a secret file"

on a start "${job[@]}" --secret_file "$work/ours" "${worker[@]}"
DDPRUN_SECRET=$secret on b start "${job[@]}" --rdzv_conf is_host=false "${worker[@]}"
on wrong run "${job[@]}" --rdzv_conf is_host=false --secret_file "$work/other" "${worker[@]}"
expect_exit 2
expect_stderr "$here:29500 refused this node: the two secrets differ"
on none run "${job[@]}" --rdzv_conf is_host=false "${worker[@]}"
expect_exit 2
expect_stderr "$here:29500 refused this node: it admits only nodes with its secret"
if command -v openssl >/dev/null; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x -keyout "$work/key.pem" \
    -out "$work/certificate.pem" &>"$work/openssl" || fail "$(cat "$work/openssl")"
  env "$mark" openssl s_server -accept "$here:29501" -cert "$work/certificate.pem" -key "$work/key.pem" -tls1_3 -quiet \
    &>"$work/openssl" &
  pretender=$!
  on believer run --nnodes 2 --rdzv_endpoint "$here:29501" --rdzv_conf is_host=false --secret_file "$work/ours" true
  expect_exit 2
  expect_stderr "$here:29501 refused this node: it does not answer as a master with a secret does"
  kill "$pretender"
  wait "$pretender" || true
fi
DDPRUN_SECRET=$secret on dry run "${job[@]}" --dry_run "${worker[@]}"
expect_exit 0
clock=$DDPRUN_BIN/libother_clock.so  # 90 s ahead; not in builds with sanitizers
[ -e "$clock" ] || clock=''
LD_PRELOAD=$clock DDPRUN_SECRET_FILE=$work/ours on c start "${job[@]}" --rdzv_conf is_host=false "${worker[@]}"
for node in a b c; do on "$node" wait_for_event round_ready '"node_count":3,'; done
on a expect_stderr 'refused a node at 127\..*: the two secrets differ'
expect_stderr 'refused a node at 127\..*: it admits only nodes with its secret'

wait_until test -s "$work/env.0" -a -s "$work/env.1" -a -s "$work/env.2"
for node in a b c; do
  on "$node" wait_for_event worker_started
  for pid in "$ddprun" "$(agent_of)" "$(worker_of)"; do
    ! grep -q "$secret" "/proc/$pid/environ" "/proc/$pid/cmdline" || fail "process $pid of $node shows it"
  done
done
! grep -q 'DDPRUN_SECRET=' "$work"/env.* || fail "a worker has the variable"

on b
lost_rank=$(sed -n 's/.*"round_ready".*"node_rank":\([0-9]*\),.*/\1/p' "$events" | tail -1)
kill -KILL "$(agent_of)"
finish
expect_exit 137
for node in a c; do
  on "$node" wait_for_event round_ready '"restarts":0,"node_rank":'
  wait_for_event round_ready '"node_count":2,'
  expect_stderr "node $lost_rank \(.*\) is gone: its agent was killed by SIGKILL"
  kill -INT "$ddprun"
done
for node in a c; do on "$node" finish && expect_exit 130; done
rm "$work/ours"
! grep -rq "$secret" "$work" || fail "it was written: $(grep -rl "$secret" "$work")"
expect_no_process_left
