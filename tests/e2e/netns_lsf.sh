#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job script of LSF ddprun starts the agents on the job's hosts with blaunch: one report, one
# exit code, and a host is lost when its blaunch is. LSF's own is not to be had: this one enters a
# namespace.
. "$(dirname "${BASH_SOURCE[0]}")/netns_started_hosts.sh"
cat >"$work/bin/blaunch" <<END
#!/bin/sh
host=\${1#node}
shift
echo \$\$ >>"$work/blaunch.pids"
exec unshare --uts --mount sh "$work/.enter" "\$host" ip netns exec "$net-\$host" sh -c "\$*"
END
chmod +x "$work/bin/blaunch"
command_prefix[1]+=" env LSB_JOBID=7 PATH=$work/bin:$PATH"
export LSB_MCPU_HOSTS='node1 2 node2 2'

on 1 run --nproc_per_node 2 "$DDPRUN_BIN/allreduce_hello"
expect_sums

expect_one_report

# It ends by its own last word: the others, which would wait for another node, are stopped soon.
start_sleepers
there=()
for pid in $(ip netns pids "$net-2"); do
  if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = ddprun ]; then there+=("$pid"); fi
done
kill -TERM "${there[@]}"
finish
expect_exit 143
expect_stderr 'node 1 \(node2\) left: its ddprun got SIGTERM'
expect_no_process_left soon

start_sleepers
kill -KILL "$(cat "$work/blaunch.pids")"
expect_lost blaunch
