#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts that have the same link-local addresses in two networks, as on two VLANs of one interface: a worker's
# connection through one of them does not let in another user of its host, who connects from the same address and
# port through the other one.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip "there is no python3"
hosts 2
for lan in lan7 lan8; do
  ip link add $lan netns "$net-1" type veth peer name $lan netns "$net-2"
  for host in 1 2; do
    ip -n "$net-$host" addr add "fe80::$host/64" dev $lan nodad
    ip -n "$net-$host" link set $lan up
  done
done
"$DDPRUN" secret "$work/secret" || fail "no secret"
job=(--nnodes 2 --secret_file "$work/secret" "${quick[@]}")

# The job's store is at every address of host 1. Rank 1 uses it through each network, and a stranger through the other.
cat >"$work/worker" <<'END'
import os, socket, subprocess, sys
GREETING, PING = b"\x00\xce\xf7\x85\x3c", bytes([13]) + b"ping"
STRANGER = """
import os, socket, sys
there = socket.if_nametoindex(sys.argv[1])
os.setresuid(54321, 54321, 54321)
store = socket.socket(socket.AF_INET6)
store.bind(("fe80::2", int(sys.argv[2]), 0, there))
store.connect(("fe80::1", 29500, 0, there))
try:
    store.sendall(bytes.fromhex("00cef7853c0d") + b"ping")
    print("in" if store.recv(4, socket.MSG_WAITALL) == b"ping" else "nothing")
except ConnectionError:
    print("nothing")
"""
def use(lan):
    store = socket.socket(socket.AF_INET6)
    there = socket.if_nametoindex(lan)
    store.bind(("fe80::2", 0, 0, there))
    store.connect(("fe80::1", 29500, 0, there))
    store.sendall(GREETING + PING)
    assert store.recv(4, socket.MSG_WAITALL) == b"ping", "the store refused its own worker"
    return store
if os.environ["RANK"] == "1":
    for ours, other in (("lan7", "lan8"), ("lan8", "lan7")):
        store = use(ours)
        port = str(store.getsockname()[1])
        stranger = subprocess.run([sys.executable, "-c", STRANGER, other, port], stdout=subprocess.PIPE)
        print("stranger got", stranger.stdout.decode().strip(), flush=True)
        store.close()
END
on 1 start serve "${job[@]}" --rdzv_endpoint :29500
wait_for_event serving
on 2 start "${job[@]}" --rdzv_endpoint node1 --node_rank 0 python3 "$work/worker"
on 3 true
command_prefix[3]=${command_prefix[2]}
on 3 run "${job[@]}" --rdzv_endpoint node1 --node_rank 1 python3 "$work/worker"
expect_exit 0
[ "$(grep -c 'stranger got nothing$' "$out")" = 2 ] || fail "another user got in: $(cat "$out")"
for each in 1 2; do on "$each" finish && expect_exit 0; done
expect_no_process_left
