#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker whose control group is frozen, as by `docker pause`, is reported as frozen, and named as the likely cause when
# another worker timed out waiting for it. Tried with control groups of version 1 and 2, where the host has them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] || skip "needs root: a control group of its own"

groups=()
remove_groups() {
  local group
  for group in "${groups[@]}"; do
    thaw "$group"
    rmdir "$group" 2>/dev/null || true
  done
}
at_exit+=(remove_groups)
for parent in /sys/fs/cgroup/{freezer,unified,.}; do
  group=$parent/ddprun-frozen-$$
  mkdir "$group" 2>/dev/null || continue
  if [ -e "$group/freezer.state" ] || [ -e "$group/cgroup.freeze" ]; then groups+=("$group"); else rmdir "$group"; fi
done
[ ${#groups[@]} -gt 0 ] || skip "there is no freezer here"
freeze() { if [ -e "$1/freezer.state" ]; then echo FROZEN >"$1/freezer.state"; else echo 1 >"$1/cgroup.freeze"; fi; }
thaw() { if [ -e "$1/freezer.state" ]; then echo THAWED >"$1/freezer.state"; else echo 0 >"$1/cgroup.freeze"; fi; }

export work
for group in "${groups[@]}"; do
  rm -f "$work/go"
  # shellcheck disable=SC2016
  start --nproc_per_node 2 bash -c '
    [ "$RANK" = 0 ] || exec sleep 600
    until [ -e "$work/go" ]; do sleep 0.05; done
    echo "RuntimeError: Timed out waiting 1800000ms for recv operation to complete" >&2
    exit 5'
  frozen=$(worker_of 1)
  echo "$frozen" >"$group/cgroup.procs"
  freeze "$group"
  shows() { "$DDPRUN" status "$ddprun" 2>/dev/null | grep -qE '^1 .* running \(frozen by its control group\)'; }
  wait_until shows
  touch "$work/go"
  wait_for_event round_stopping
  thaw "$group"  # else it cannot end
  finish
  expect_exit 5
  expect_stderr "^ddprun: rank 1 \($(hostname)\) is the likely cause: frozen by its control group \(as docker pause does\).*, while rank 0 waited\$"
done
expect_no_process_left
