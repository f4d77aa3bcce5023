#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job of Slurm several nodes have a secret without any setting, by the real munge: however the agents are
# started, however old the master's credential is. Another user, a node without munge and one with another secret
# are refused, and a secret that the user gives goes first. Without munge there is none. Where etcd elects the master
# each node has a secret for when it is the master.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
hello=$DDPRUN_BIN/allreduce_hello
command -v python3 >/dev/null || skip "there is no python3"
slurm
"$DDPRUN" secret "$work/secret" || fail "no secret"
cat >"$work/worker" <<'END'
#!/bin/bash
touch "$1/up.$RANK"
until [ -e "$1/finish" ]; do read -rt 0.1 <>"$1/fifo"; done
exit 0
END
chmod 755 "$work/worker"

# The variables that srun gives to the task on node 2 of a step of both.
step=(env SLURM_JOB_ID=99 SLURM_STEP_ID=0 'SLURM_STEP_NODELIST=node[1-2]' SLURM_STEP_NUM_NODES=2 SLURMD_NODENAME=node2)
# shellcheck disable=SC2016
without_munge=(unshare --mount sh -c 'mount -t tmpfs none /run/munge; exec "$@"' sh)
join=("$DDPRUN" --nnodes 2 --rdzv_id ours --rdzv_endpoint node1:29500 true)

# A running job, whose agents ddprun starts.
submit --nodes 2 -- "exec $DDPRUN --log_level debug --rdzv_id ours --master_port 29500 $work/worker $work"
wait_until test -e "$work/up.0" -a -e "$work/up.1"
of_job
wait_for_stderr 'the job has a secret \(munge\)$'
on_host 2 "${join[@]}"
expect_exit 2
expect_stderr 'node1:29500 refused this node: it admits only nodes with its secret, which they get by munge'
on_host 2 "${step[@]}" "${without_munge[@]}" "${join[@]}"
expect_exit 2
expect_stderr 'node1:29500 refused this node: it admits only nodes with its secret, which they get by munge'
on_host 2 "${step[@]}" setpriv --reuid 65534 --regid 65534 --clear-groups "${join[@]}"
expect_exit 2
expect_stderr 'node1:29500 has a secret that cannot be opened here: munge: Unauthorized credential'
on_host 2 "${step[@]}" "${join[@]:0:1}" --secret_file "$work/secret" "${join[@]:1}"
expect_exit 2
expect_stderr 'node1:29500 refused this node: the two secrets differ'
code=running
of_job
wait_for_stderr 'refused .*: it admits only nodes with its secret, which they get by munge'
wait_for_stderr 'refused a node at .*: the two secrets differ'
touch "$work/finish"
wait_until job_is_over
[ "$(job_field ExitCode)" = 0:0 ] || fail "the job ended with $(job_field ExitCode)"

expect_two_sums() {
  expect_exit 0
  expect_stdout 'rank 0 of 2: the sum is 3$'
  expect_stdout 'rank 1 of 2: the sum is 3$'
}
srun=(srun --nodes 2 --ntasks-per-node 1)
# One agent on each node, none of which has started the other.
on_host 1 "${srun[@]}" "$DDPRUN" --log_level debug --store tunnel "$hello"
expect_two_sums
[ "$(grep -c 'a secret (munge)' "$err")" = 2 ] || fail "not a secret on both nodes"
on_host 1 "${srun[@]}" "$DDPRUN" --log_level debug --secret_file "$work/secret" "$hello"
expect_two_sums
expect_no_stderr 'munge'
on_host 1 "${srun[@]}" "${without_munge[@]}" "$DDPRUN" --log_level debug "$hello"
expect_two_sums
expect_stderr 'no secret \(munge: '

# A master without munge.
on 1 start --nnodes 2 --rdzv_id ours --rdzv_endpoint node1:29500 true
wait_for_event job_started
on_host 2 "${step[@]}" "${join[@]}"
expect_exit 2
expect_stderr "node1:29500 refused this node: the master's job has no secret, and this node gets its own by munge"
on 1 expect_stderr "refused a node at 10.9.0.2.*: the master's job has no secret"
kill -INT "$ddprun"
finish
expect_exit 130

# A pretender has the port, and a credential of another user, or one of the node's user that is no secret of this job:
# its payload is public, as in a credential that was made for something else, or it is the secret of another job.
cat >"$work/pretender" <<'END'
import json, os, socket, struct, subprocess, sys
user, payload = int(sys.argv[1]), sys.argv[2].encode()
os.setresuid(user, user, user)
seal = ["munge", "--restrict-uid", "0"]
sealed = subprocess.run(seal, input=payload, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
listening = socket.create_server(("", 29500))
print("listens", flush=True)
agent, _ = listening.accept()
body = json.dumps({"type": "sealed_secret", "credential": sealed}).encode()
agent.sendall(struct.pack(">I", len(body)) + body)
while agent.recv(4096):
    pass
END
pretend() {  # pretend USER PAYLOAD REASON
  daemon 1 python3 "$work/pretender" "$1" "$2"
  wait_until grep -qs listens "$work/.daemon.$((${#daemons[@]} - 1))"
  on_host 2 "${step[@]}" "${join[@]}"
  expect_exit 2
  expect_stderr "node1:29500 has a secret that cannot be opened here: munge: $3"
  wait "${daemons[-1]}" || fail "no node came to the pretender"
}
bytes=$(printf 'x%.0s' {1..32})
sealed_for() { printf 'ddprun secret 1 of job %s\n%s' "$1" "$2"; }
pretend 54321 "$(sealed_for ours "$bytes")" 'it was sealed by another user \(uid 54321, '
for payload in "$bytes" "$(sealed_for other "$bytes")" "$(sealed_for ours "${bytes}x")" \
  "$(sealed_for ours "${bytes%x}")" 'a credential of Slurm'; do
  pretend 0 "$payload" "it is not the secret of job 'ours' \(--rdzv_id\)"
done

# If credentials expire after a second, the second node comes when the master's has expired.
mkdir "$work/short"
daemon 1 munged --foreground --force --socket "$work/short/munge.socket.2" --key-file "$work/munge.key" \
  --pid-file "$work/short.pid" --seed-file "$work/short.seed" --log-file "$work/short.log" --max-ttl 1
wait_until test -S "$work/short/munge.socket.2"
cat >"$work/late" <<'END'
mount --bind "$1/short" /run/munge
if [ "$SLURMD_NODENAME" = node2 ]; then
  until (: <>/dev/tcp/node1/29500) 2>/dev/null; do read -rt 0.1 <>"$1/fifo"; done
  credential=$(munge --no-input)
  until unmunge --no-output <<<"$credential" >/dev/null 2>&1; [ $? = 15 ]; do read -rt 0.1 <>"$1/fifo"; done
fi
exec "${@:2}"
END
on_host 1 "${srun[@]}" unshare --mount bash "$work/late" "$work" \
  "$DDPRUN" --log_level debug --rdzv_endpoint node1:29500 "$hello"
expect_two_sums
[ "$(grep -c 'a secret (munge)' "$err")" = 2 ] || fail "not a secret on both nodes"

# The master that etcd has elected leaves, so another node is, with the secret that munge has sealed there.
start_etcd 1 10.9.0.1 ip netns exec "$net-1"
elected=(--nnodes 2:3 --last_call_timeout 60s --log_level debug --rdzv_backend etcd
         --rdzv_endpoint "$(etcd_endpoints)" --rdzv_id elected --store tunnel)
# shellcheck disable=SC2016
worker=(sh -c '[ "$WORLD_SIZE" = 3 ] && exec sleep 600; exec "$0"' "$hello")
for host in 1 2 3; do
  command_prefix[$host]+=" env SLURM_JOB_ID=99 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=node[1-3]
    SLURM_STEP_NUM_NODES=3 SLURMD_NODENAME=node$host"
  on "$host" start "${elected[@]}" "${worker[@]}"
done
for host in 1 2 3; do on "$host" wait_for_event round_ready '"node_count":3,'; done
is_master() { grep -q 'this node is the master' "$err"; }
for host in 1 2 3; do
  on "$host" expect_stderr 'the job has a secret \(munge\)$'
  ! is_master || left=$host
done
on "$left"
kill -TERM "$ddprun"
finish
expect_exit 143
masters=0
for host in 1 2 3; do
  [ "$host" != "$left" ] || continue
  on "$host" finish
  expect_exit 0
  expect_stdout 'rank . of 2: the sum is 3$'
  expect_no_stderr 'the two secrets differ|killing this node'
  ! is_master || masters=$((masters + 1))
done
[ "$masters" = 1 ] || fail "$masters nodes were the master after the first one"

end_etcd
end_slurm
expect_no_process_left soon
