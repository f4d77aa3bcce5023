#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With a secret a node's workers may come from any address of their host, also a link-local one, and not from
# those of other hosts.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip "there is no python3"
hosts 3
for host in 1 2 3; do ip -n "$net-$host" addr add "fe80::$host/64" dev eth0 nodad; done
ip -n "$net-2" addr add 10.9.0.22/24 dev eth0
attacker=$(dirname "${BASH_SOURCE[0]}")/attacker.py
"$DDPRUN" secret "$work/secret" || fail "no secret"
job=(--nnodes 2 --secret_file "$work/secret" "${quick[@]}")

# `sh -c` has the same text on both nodes.
# shellcheck disable=SC2016
worker=(sh -c 'exec python3 "$0" worker "$MASTER_ADDR" "$MASTER_PORT" "$1"' "$attacker" "$work")
touch "$work/finish"
for endpoint in node1 '[fe80::1%eth0]:29500'; do
  more=()
  [ "$endpoint" != node1 ] || more=(--local_addr 10.9.0.22)  # the agent's; the worker comes from 10.9.0.2
  on 1 start "${job[@]}" --rdzv_endpoint "$endpoint" "${worker[@]}"
  wait_for_event job_started
  on 2 run "${job[@]}" --rdzv_endpoint "$endpoint" "${more[@]}" "${worker[@]}"
  expect_exit 0
  on 1 finish
  expect_exit 0
done
expect_no_process_left
