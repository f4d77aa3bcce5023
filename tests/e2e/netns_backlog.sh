#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The master's host lets as many connections wait as its administrator allows: all ranks of a large job connect in the
# same second.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 1
ip netns exec "$net-1" sh -c 'echo 20000 >/proc/sys/net/core/somaxconn' || skip "somaxconn cannot be set"

listening() { ip netns exec "$net-1" ss -Hlnt 'sport = :29500' | grep LISTEN >"$work/sockets"; }
on 1 start --nnodes 2 --rdzv_endpoint 10.9.0.1:29500 true
wait_until listening
backlog=$(awk '{print $3}' "$work/sockets")
[ "$backlog" = 20000 ] || fail "the backlog is '$backlog'"
kill -TERM "$ddprun"
finish
expect_no_process_left
