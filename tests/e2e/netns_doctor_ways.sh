#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun doctor on three hosts between which packets do not pass: some ways are closed, slow or lose
# large packets, or there is no way to the rendezvous.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v tc >/dev/null || skip "there is no tc command (package iproute2)"
hosts 3 4
doctor() {  # doctor COMMAND HOST [OPTION...]
  on "$2" "$1" doctor --nnodes 3 --node_rank "$(($2 - 1))" --rdzv_endpoint node1 "${quick[@]}" "${@:3}"
}
finish_both() {
  on 1 finish
  on 2 finish
}

# From host 1 to host 2 a slow way, to host 3 one that large packets do not pass; host 2 and 3 have
# no way to each other.
tc -n "$net-1" qdisc add dev eth0 root tbf rate 50mbit burst 64k latency 50ms ||
  skip "no token bucket filter in this kernel"
ip -n "$net-1" link set eth0 mtu 9000 gso_max_segs 1 gso_max_size 9000
ip -n "$net-3" link set eth0 mtu 9000
ip -n "$net-3" route add blackhole 10.9.0.2/32
doctor start 1
doctor start 2
doctor run 3
finish_both
on 1 expect_exit 1
on 1 expect_stdout '^FAIL  connections: node2 does not reach node3 at 10.9.0.3 \(Connection timed out\); node3 does not reach node2 at 10.9.0.2 \(.*\)$'
on 1 expect_stdout '^      -> check routes .* on both nodes'
on 1 expect_stdout '^FAIL  packets: small ones arrive, large ones are lost: node1 to node3 \(MTU 9000\)$'
on 1 expect_stdout '^warn  bandwidth: node1 to node2 carries [0-9.]+ Mbit/s, the interfaces 10000'

# Host 3 does not know its own name, and the way from host 1 to it has a smaller MTU than their interfaces.
ip -n "$net-3" route del blackhole 10.9.0.2/32
ip -n "$net-1" link set eth0 mtu 1500
ip -n "$net-3" link set eth0 mtu 1500
ip -n "$net-1" route add 10.9.0.3/32 dev eth0 mtu 1300
cp "$work/.enter" "$work/.enter_known"
# shellcheck disable=SC2016
sed -i 's/^shift$/[ "$1" != 3 ] || hostname nobody-knows-this; &/' "$work/.enter"
for host in 1 2; do GLOO_SOCKET_IFNAME='' doctor start $host; done
GLOO_SOCKET_IFNAME='' doctor run 3
finish_both
on 1 expect_exit 1
on 1 expect_stdout '^FAIL  host name \(nobody-knows-this\): the host.s own name is unknown to the resolver: '
on 1 expect_stdout '^warn  packets: node1 to nobody-knows-this carries packets of 1300 bytes, the interfaces 1500$'
cp "$work/.enter_known" "$work/.enter"
ip -n "$net-1" route del 10.9.0.3/32

# While all send at once, one way is slower than the others; none is fast, so that this takes little CPU.
for host in 1 2 3; do
  ip -n "$net-$host" link set eth0 mtu 1500
  rate=$((host == 2 ? 4 : 600))mbit
  tc -n "$net-$host" qdisc replace dev eth0 root tbf rate $rate burst 64k latency 50ms
done
doctor start 1 --bench
doctor start 2 --bench
doctor run 3 --bench
finish_both
on 1 expect_stdout '^warn  ring: while all nodes send, node2 to node3 carries [0-9.]+ Mbit/s, most others [0-9.]+ or more$'

# Host 2 has no way to the rendezvous, host 3 takes itself for it, host 1 waits for both.
ip -n "$net-2" route add blackhole 10.9.0.1/32
echo '127.0.1.1 node1' | cat - "$work/hosts" >"$work/hosts3"
sed "s|$work/hosts|$work/hosts\$1|" "$work/.enter" >"$work/.enter_each"
cp "$work/.enter_each" "$work/.enter"
for host in 1 2; do cp "$work/hosts" "$work/hosts$host"; done
doctor start 1 --join_timeout 1
doctor start 2 --join_timeout 1
doctor run 3 --join_timeout 1
finish_both
for host in 1 2 3; do
  on $host expect_exit 1
  on $host expect_stdout '^FAIL  rendezvous: .*$'
  on $host expect_stdout '-> start ddprun doctor on all nodes .* TCP connections to node1:29500 have to pass'
  on $host expect_stdout '^doctor: .* 1 node$'
done
on 2 expect_stdout '^FAIL  rendezvous: .*10\.9\.0\.1'
on 3 expect_stdout '^FAIL  endpoint: node1 stands for 127\.0\.1\.1 on this host, so it waits for the nodes itself$'
on 1 expect_no_stdout '^FAIL  endpoint'
expect_no_process_left
