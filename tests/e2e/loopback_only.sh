#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job on one machine listens only on the loopback address.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start sh -c 'echo "port $MASTER_PORT"; exec sleep 600'
wait_until grep -q '^port' "$out"
port=$(sed -n 's/^port //p' "$out")
hex=$(printf ':%04X' "$port")
# Another test may have the same port at another address.
find "/proc/$(agent_of)/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >"$work/sockets"
listening=$(awk -v port="$hex" 'FNR == NR { own[$1]; next } $4 == "0A" && index($2, port) && $10 in own {print $2}' \
  "$work/sockets" /proc/net/tcp /proc/net/tcp6)
[ "$listening" = "0100007F$hex" ] || fail "listening on $listening, not on 127.0.0.1 alone"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
