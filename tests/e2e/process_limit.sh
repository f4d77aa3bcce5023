#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If a control group allows no more processes, the report names its limit, and the value that it needs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] || skip "needs root: a control group of its own"

remove_group() { rmdir "$group" 2>/dev/null || true; }
at_exit+=(remove_group)
for parent in /sys/fs/cgroup/{pids,unified,.}; do
  group=$parent/ddprun-processes-$$
  mkdir "$group" 2>/dev/null || continue
  [ ! -e "$group/pids.max" ] || break
  rmdir "$group"
done
[ -e "$group/pids.max" ] || skip "no control group limits processes here"

cat >"$work/limited" <<SH
#!/bin/sh
echo \$\$ >"$group/cgroup.procs"
exec "\$@"
SH
chmod +x "$work/limited"
command_prefix[only]=$work/limited
echo 6 >"$group/pids.max"
run --nproc_per_node 8 sleep 600
expect_exit 125
expect_stderr 'it could not be started .*\(limit of processes reached: pids.max of the cgroup, which is 6 and has to be at least [0-9]+ to start all 8\)'
expect_no_process_left
