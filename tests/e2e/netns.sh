# SPDX-License-Identifier: Apache-2.0
# Tests with several hosts source this instead of common.sh: hosts 1, 2, ... are network namespaces
# on one switch, with the names node1, node2, ... and the addresses 10.9.0.1, fd09::1, ...
#
#   hosts N [4|6]           sets them up, with both kinds of addresses or only one
#   on I start ...          starts ddprun on host I
#   unplug I  plug I        the cable of host I: its packets are lost silently
#
#   $stamper                for `bash -c "$stamper" "$work"`: a worker that writes time stamps while it lives
#   expect_no_two_rounds    no worker of a round ran while one of a later round did
#
# Skipped where namespaces cannot be made, as by anyone but root.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

net=ddprun$$
switch=$net-switch

hosts() {
  local host
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  command -v ip >/dev/null || skip "there is no ip command (package iproute2)"
  at_exit+=(remove_hosts)
  ip netns add "$switch" 2>"$work/no_netns" || skip "no namespaces here: $(cat "$work/no_netns")"
  ip -n "$switch" link add switch type bridge || skip "no bridges in this kernel"
  ip -n "$switch" link set switch up
  cat /etc/hosts >"$work/hosts"
  for ((host = 1; host <= $1; ++host)); do add_host "$host" "${2:-}"; done
}

add_host() {
  local ns=$net-$1
  ip netns add "$ns"
  ip -n "$switch" link add "port$1" type veth peer name eth0 netns "$ns"
  ip -n "$switch" link set "port$1" master switch up
  [ "$2" = 6 ] || ip -n "$ns" addr add "10.9.0.$1/24" dev eth0
  [ "$2" = 4 ] || ip -n "$ns" addr add "fd09::$1/64" dev eth0 nodad
  ip -n "$ns" link set lo up
  ip -n "$ns" link set eth0 up
  [ "$2" = 6 ] || echo "10.9.0.$1 node$1" >>"$work/hosts"
  [ "$2" = 4 ] || echo "fd09::$1 node$1" >>"$work/hosts"
  command_prefix[$1]="unshare --uts --mount sh $work/.enter $1 ip netns exec $ns"
  cat >"$work/.enter" <<END
mount --bind "$work/hosts" /etc/hosts
hostname "node\$1"
shift
exec "\$@"
END
}

remove_hosts() {
  local ns
  for ns in $(ip netns list | sed -n "s/^\($net-[^ ]*\).*/\1/p"); do ip netns del "$ns"; done
}

unplug() {
  ip -n "$switch" link set "port$1" nomaster
}

plug() {
  ip -n "$switch" link set "port$1" master switch
}

# shellcheck disable=SC2016
stamper='exec >>"$0/stamps"
  while echo "$$ $EPOCHREALTIME"; [ ! -e "$0/finish" ]; do read -rt 0.02 <>"$0/fifo"; done; true'
mkfifo "$work/fifo"  # to wait for without a new process

expect_no_two_rounds() {
  cat "$work"/.*.events | sed -n \
    's/.*"worker_started".*"round":\([0-9]*\),.*"pid":\([0-9]*\)}.*/round \2 \1/p' >"$work/rounds"
  awk '
    $1 == "round" { round[$2] = $3; next }
    {
      r = round[$1]
      if (r == "") { print "not a worker: " $0; bad = 1; next }
      if (!(r in first) || $2 < first[r]) first[r] = $2
      if (!(r in last) || $2 > last[r]) last[r] = $2
      if (r > rounds) rounds = r
    }
    END {
      for (r = 0; r < rounds; ++r) for (s = r + 1; s <= rounds; ++s) {
        if ((r in last) && (s in first) && last[r] >= first[s]) {
          printf "round %d ran until %.6f, round %d began at %.6f\n", r, last[r], s, first[s]
          bad = 1
        }
      }
      if (rounds < 1) { print "there was only one round"; bad = 1 }
      exit bad
    }' OFMT=%.6f "$work/rounds" "$work/stamps" >"$work/overlap" || fail "$(cat "$work/overlap")"
}
