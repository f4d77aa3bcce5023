#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job script of LSF ddprun starts the agents on the job's hosts with blaunch: one report, one
# exit code, and a host is lost when its blaunch is. LSF's own is not to be had: this one enters a
# namespace.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2 4
mkdir "$work/bin"
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
expect_exit 0
for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
expect_no_process_left

# shellcheck disable=SC2016
run sh -c 'test $RANK = 0 || exit 7; exec sleep 1000'
expect_exit 7
[ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
expect_no_process_left

both_run() { [ "$(grep -c runs "$out")" = 2 ]; }
# It ends by its own last word: the others, which would wait for another node, are stopped soon.
start sh -c 'echo runs; exec sleep 1000'
wait_until both_run
there=()
for pid in $(ip netns pids "$net-2"); do
  if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = ddprun ]; then there+=("$pid"); fi
done
kill -TERM "${there[@]}"
finish
expect_exit 143
expect_stderr 'node 1 \(node2\) left: its ddprun got SIGTERM'
expect_no_process_left soon

: >"$work/blaunch.pids"
start sh -c 'echo runs; exec sleep 1000'
wait_until both_run
kill -KILL "$(cat "$work/blaunch.pids")"
finish
expect_exit 125
expect_stderr 'host node2 is lost: its blaunch ended'
expect_no_process_left soon
