#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job script of PBS ddprun starts the agents with pbsdsh, which takes neither input nor output
# along: one report, one exit code on this side, and a host is lost when its pbsdsh is. PBS's own is
# not to be had: this one enters a namespace, with a job's environment alone, and its tasks' output
# goes to the job's file.
. "$(dirname "${BASH_SOURCE[0]}")/netns_started_hosts.sh"
printf 'node1\nnode1\nnode2\nnode2\n' >"$work/nodes"
script=(PBS_ENVIRONMENT=PBS_BATCH PBS_JOBID=604319.head PBS_JOBCOOKIE=6B8C4F9D774B0AA5
        "PBS_NODEFILE=$work/nodes" PBS_NODENUM=0 PBS_TASKNUM=1)
cat >"$work/bin/pbsdsh" <<END
#!/bin/bash
[ "\$1 \$3" = "-n --" ] || exit 1
host=\$(sed -n "\$((\$2 + 1))s/node//p" "$work/nodes")
shift 3
echo \$\$ >>"$work/pbsdsh.pids"
[ ! -e "$work/bad" ] || set -- false
env -i "$mark" "PATH=$PATH" ${script[*]} \${OTHER_COOKIE:+PBS_JOBCOOKIE=other} PBS_NODENUM=1 PBS_TASKNUM=2 \
  unshare --uts --mount sh "$work/.enter" "\$host" ip netns exec "$net-\$host" "\$@" \
  </dev/null >>"$work/job.out" 2>&1 || echo "pbsdsh: task 0x00000000 exit status \$?"
END
chmod +x "$work/bin/pbsdsh"
command_prefix[1]+=" env ${script[*]} PATH=$work/bin:$PATH"

export MINE="it's
mine"
# shellcheck disable=SC2016
on 1 run --log_level debug --nproc_per_node 2 --export MINE sh -c 'echo "$RANK on $(hostname): ${#MINE}"; echo "$RANK" >&2
  exec "$0"' "$DDPRUN_BIN/allreduce_hello"
expect_exit 0
for line in '0 node1' '1 node1' '2 node2' '3 node2'; do
  expect_stdout "^\[${line% *}\] ${line% *} on ${line#* }: 9$"
  expect_stdout "rank ${line% *} of 4: the sum is 10\$"
  expect_stderr "^\[${line% *}\] ${line% *}$"
done
expect_stderr 'pbs job 604319.head: .*an agent on each node \(PBS_NODEFILE\)'
[ ! -s "$work/job.out" ] || fail "the job's file has: $(cat "$work/job.out")"
expect_no_process_left

expect_one_report

start_sleepers
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left soon

# The end of what started it, of this side, or of the agent.
start_sleepers
relay=$(pgrep -P "$(agent_of)" -f -- --remote_relay)
kill -KILL "$relay"
expect_lost pbsdsh
start_sleepers
kill -KILL "$ddprun"
finish
expect_no_process_left soon

# No agent calls; and none that has another cookie is heard.
touch "$work/bad"
run sleep 1000
expect_exit 125
expect_stderr '^ddprun: host node2: cannot be reached: pbsdsh ended with exit code 1 \(pbsdsh: task 0x00000000 exit status 1\); try it by hand: .*/pbsdsh -n 2 -- true; stopping the other hosts$'
rm "$work/bad"
OTHER_COOKIE=1 run sleep 1000
expect_exit 125
expect_stderr '^ddprun: host node2: cannot be reached: pbsdsh ended'
grep -q 'is not the ddprun that started this one, or has another PBS_JOBCOOKIE' "$work/job.out" ||
  fail "the job's file has: $(cat "$work/job.out")"
expect_no_process_left soon
