#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job script of PBS ddprun starts an agent on each host of PBS_NODEFILE by ssh, of which only the variables
# are PBS's here: one report, one exit code, the secret comes along, and a host that lets no ssh in is named
# with the other way.
. "$(dirname "${BASH_SOURCE[0]}")/netns_sshd.sh"
hosts 3 4
serve_ssh 2
printf 'node1\nnode1\nnode2\nnode2\n' >"$work/nodes"
command_prefix[1]+=" env PBS_ENVIRONMENT=PBS_BATCH PBS_JOBID=604319.head PBS_NODEFILE=$work/nodes PBS_NODENUM=0 PBS_TASKNUM=1"

# shellcheck disable=SC2016
on 1 run "${ssh[@]}" --log_level debug --nproc_per_node 2 sh -c 'echo "$RANK on $(hostname)"; echo "$RANK" >&2; exec "$0"' \
  "$DDPRUN_BIN/allreduce_hello"
expect_exit 0
for line in '0 node1' '1 node1' '2 node2' '3 node2'; do
  expect_stdout "^\[${line% *}\] ${line% *} on ${line#* }$"
  expect_stdout "rank ${line% *} of 4: the sum is 10\$"
  expect_stderr "^\[${line% *}\] ${line% *}$"
done
expect_stderr 'pbs job 604319.head: .*an agent on each node \(PBS_NODEFILE\)'
expect_no_process_left

# shellcheck disable=SC2016
DDPRUN_SECRET=$(printf '%064d' 7) run "${ssh[@]}" sh -c '[ $RANK != 1 ] || exit 7; exec sleep 1000'
expect_exit 7
[ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
expect_no_process_left

echo node3 >>"$work/nodes"
run "${ssh[@]}" sleep 1000
expect_exit 125
expect_stderr '^ddprun: host node3: cannot be reached: ssh ended with exit code 255 \(.*node3.*\); try it by hand: ssh .* node3 true; or start ddprun on every node: pbsdsh .*; stopping the other hosts$'
expect_no_process_left soon
