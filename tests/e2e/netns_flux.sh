#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a batch script of Flux ddprun starts the agents with flux run, on the hosts of the script's
# instance; started by flux run itself on each node it just takes part. Flux is not to be had: this
# `flux` knows two hosts, and enters their namespaces.
. "$(dirname "${BASH_SOURCE[0]}")/netns_started_hosts.sh"
cat >"$work/bin/flux" <<END
#!/bin/bash
[ "\$*" != 'hostlist local' ] || { echo 'node[1-2]'; exit; }
[ "\$1" = run ] || exit 1
shift
host=none exclusive=
while [[ \$1 == --* ]]; do
  case \$1 in
    --requires=host:node*) host=\${1#--requires=host:node} ;;
    --exclusive) exclusive=1 ;;
  esac
  shift
done
[ "\$exclusive" ] || exit 1
echo \$\$ >>"$work/flux.pids"
export FLUX_JOB_ID=f3 FLUX_JOB_NNODES=1 FLUX_JOB_SIZE=1 FLUX_TASK_RANK=0 FLUX_TASK_LOCAL_ID=0
exec unshare --uts --mount sh "$work/.enter" "\$host" ip netns exec "$net-\$host" "\$@"
END
chmod +x "$work/bin/flux"
for host in 1 2; do
  command_prefix[$host]+=" env FLUX_ENCLOSING_ID=f2 FLUX_URI=local:///run/flux PATH=$work/bin:$PATH"
done

on 1 run --nproc_per_node 2 "$DDPRUN_BIN/allreduce_hello"
expect_sums

expect_one_report

start_sleepers
kill -KILL "$(cat "$work/flux.pids")"
expect_lost flux

# `flux run -N 2 --tasks-per-node=1 ddprun`
for host in 1 2; do
  command_prefix[$host]+=" FLUX_JOB_ID=f4 FLUX_JOB_NNODES=2 FLUX_JOB_SIZE=2 FLUX_TASK_RANK=$((host - 1))"
  on "$host" start --nproc_per_node 2 "$DDPRUN_BIN/allreduce_hello"
done
for host in 1 2; do
  on "$host" finish
  expect_exit 0
  expect_stdout "rank $((2 * host - 1)) of 4: the sum is 10\$"
done
expect_no_process_left
