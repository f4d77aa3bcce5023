#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A master with several ports skips one that another job has. It does not skip a stuck master of its own job, whose
# workers may still run: it says so, and becomes the master when that is gone, at the first port that is free then.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 1:2 --rdzv_id job --rdzv_endpoint "$here:29500" "${quick[@]}")
conf=more_ports=29501:29502:29503

on foreign start serve --nnodes 2 --rdzv_id another --rdzv_endpoint "$here:29500"
wait_for_event serving

# shellcheck disable=SC2016
on old start "${job[@]}" --rdzv_conf "is_host=true,last_call_timeout=1,$conf" sh -c 'echo "old: $MASTER_PORT"; exec sleep 1000'
wait_for_stdout '^\[0\] old: 29501$'
agent=$(agent_of)
worker=$(worker_of 0)
kill -STOP "$agent" "$ddprun"

# A zombie has no command line.
on master start "${job[@]}" --rdzv_conf "is_host=true,last_call_timeout=1,$conf" \
  sh -c "! grep -qs . /proc/$worker/cmdline || echo two rounds at once; echo \"rank \$RANK: \$MASTER_PORT\""
wait_for_stderr "waiting .* another ddprun of this host \\(pid $agent\\) has its port: when it is free, this node becomes the master\$"
expect_no_stdout .
kill -KILL "$agent" "$(on old eval 'echo "$ddprun"')"
wait_for_stderr "the port of $here:29501 is free: this node is the master$"
finish
expect_exit 0
expect_stdout '^\[0\] rank 0: 29501$'
expect_no_stdout 'two rounds'
on old finish

on foreign true
kill "$ddprun"
finish
expect_no_process_left soon
