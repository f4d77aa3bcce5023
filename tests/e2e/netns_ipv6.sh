#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts with only IPv6 addresses connect to an address in brackets, and to a name.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2 6

for endpoint in '[fd09::1]:29501' 'node1:29502'; do
  for host in 2 1; do
    on "$host" start --nnodes 2 --rdzv_endpoint "$endpoint" "${quick[@]}" \
      sh -c 'echo "$RANK at $MASTER_ADDR port $MASTER_PORT"'
  done
  for host in 2 1; do on "$host" finish && expect_exit 0; done
  address=${endpoint%:*}
  address=${address#[}
  on 1 expect_stdout "^\[0\] 0 at ${address%]} port ${endpoint##*:}$"
  on 2 expect_stdout "^\[1\] 1 at ${address%]} port ${endpoint##*:}$"
done

for host in 2 1; do
  on "$host" start --nnodes 2 --master_addr fd09::1 "${quick[@]}" \
    "$DDPRUN_BIN/train_digits" --epochs 2
done
for host in 2 1; do on "$host" finish && expect_exit 0; done
expect_stdout 'epoch 2/2'

# A link-local address needs the interface, which only its own host knows.
for host in 1 2; do
  on "$host" run --nnodes 2 --rdzv_endpoint '[fe80::1]:29500' true
  expect_exit 2
  expect_stderr "rdzv_endpoint fe80::1: a link-local address needs the interface of this host that leads there, as in fe80::1%eth0 \\(it has eth0\\)$"
done
expect_no_process_left
