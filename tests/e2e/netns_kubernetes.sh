#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pods of a generated manifest, without Kubernetes: ddprun is process 1 of a pid namespace, with the manifest's
# command line, the variables and the host name of its index, and the lines that the kubelet writes into /etc/hosts. A
# pod that is killed comes back with another address, within its lease and also if it hosts the rendezvous, and the
# process of the other pod continues. SIGTERM ends a pod with 143.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip "there is no python3"
hosts 4 4
domain=train.default.svc.cluster.local

"$DDPRUN" manifest job --name train --image registry/train:1 --nnodes 2 --lease 4 --gpus 0 \
  --heartbeat_interval 0.5 -- bash -c 'echo "rank $RANK begins"
    until [ -e "$0/finish" ]; do read -rt 0.02 <>"$0/fifo"; done; true' "$work" >"$work/manifest"
# Each argument is a line in double quotes, as JSON has them, with $$ for $.
python3 - "$work" <<'END'
import json, re, sys
text = open(sys.argv[1] + "/manifest").read()
args = re.search(r"\n +args:\n((?: +- .*\n)+)", text).group(1)
read = [json.loads(line.strip()[2:]).replace("$$", "$") for line in args.splitlines()]
open(sys.argv[1] + "/args", "w").write("".join(arg + "\0" for arg in read))
END
readarray -d '' -t args <"$work/args"
grace=$(sed -n 's/.*terminationGracePeriodSeconds: //p' "$work/manifest")

cat >"$work/pod" <<'END'
hostname "$2"
mount --bind "$1/hosts.$2" /etc/hosts
mount -t proc proc /proc
shift 2
exec "$@"
END

# Sets the hosts that pod INDEX can resolve: itself, at the address of HOST, and more lines. Writes in place, as the
# file is mounted.
know() {  # know INDEX HOST [LINE...]
  printf '127.0.0.1 localhost\n10.9.0.%s train-%s.%s train-%s\n' "$2" "$1" "$domain" "$1" >"$work/hosts.train-$1"
  printf '%s\n' "${@:3}" >>"$work/hosts.train-$1"
}

pod() {  # pod INDEX HOST: starts it; what it knows is there
  command_prefix[$name]="ip netns exec $net-$2 env KUBERNETES_SERVICE_HOST=10.0.0.1 JOB_COMPLETION_INDEX=$1
    unshare --uts --mount --pid --fork --kill-child sh $work/pod $work train-$1"
  start "${args[@]}"
}

process_1() {
  pgrep -P "$ddprun"
}

signal_pod() {  # signal_pod SIGNAL
  kill "-$1" "$(process_1)"
  finish
}

begun() {  # begun TIMES: both ranks, in the output of all pods
  local rank
  for rank in 0 1; do
    [ "$(cat "$work"/.*.stdout | grep -c "rank $rank begins")" -ge "$1" ] || return 1
  done
}

has_agent_alone() {
  [ "$(process_1 | xargs pgrep -P | wc -l)" = 1 ]
}

know 1 2
on b pod 1 2
know 0 1
on a pod 0 1
know 1 2 "10.9.0.1 train-0.$domain"
wait_until begun 1

# A process that someone starts in a pod and leaves there becomes a child of process 1, which reaps it.
on a true
nsenter --pid --target "$(process_1)" sh -c 'sleep 0.1 & sleep 0.1 &'
wait_until has_agent_alone

# Within the lease of the pod before, unless this machine is slow; then there is no place to wait for.
on b signal_pod KILL
know 1 3 "10.9.0.1 train-0.$domain"
on c pod 1 3
wait_until begun 2

on a signal_pod KILL
know 0 4
on d pod 0 4
know 1 3 "10.9.0.4 train-0.$domain"
wait_until begun 3

on c signal_pod TERM
expect_exit 143
[ "$grace" = 30 ] || fail "a grace of $grace s"
know 1 2 "10.9.0.4 train-0.$domain"
on e pod 1 2
wait_until begun 4
: >"$work/finish"
for pod in d e; do
  on "$pod" finish
  expect_exit 0
done
expect_no_process_left
