#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGKILL to all processes that are called ddprun or have the program in their command line, as
# `pkill -9 ddprun` and `pkill -9 -f PROGRAM` send it: what workers started does not live on.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/train" <<'SH'
#!/bin/sh
sleep 600 &
setsid sleep 600 &
echo ready; wait
SH
chmod +x "$work/train"

# kill_all_called SIGNAL, and pgrep's arguments; only processes of this test.
kill_all_called() {
  local pid victims=()
  for pid in $(pgrep "${@:2}"); do
    if survivors | grep -qx "$pid"; then victims+=("$pid"); fi
  done
  [ ${#victims[@]} -gt 0 ] || fail "no process is called ${*:2}"
  kill "-$1" "${victims[@]}"
}

for pattern in ddprun '-f ddprun' "-f $work/train"; do
  start --nproc_per_node 2 "$work/train"
  wait_for_stdout '\[0\] ready'
  wait_for_stdout '\[1\] ready'
  # shellcheck disable=SC2086
  kill_all_called KILL $pattern
  finish
  expect_exit 137
  expect_no_process_left soon
done

# A plain SIGTERM to all of that name is one request to stop, not two.
start --shutdown_timeout 3600 bash -c 'trap "sleep 0.2; echo saved; exit 0" TERM; echo ready
                                       while :; do sleep 600 & wait; done'
wait_for_stdout ready
kill_all_called TERM ddprun
finish
expect_exit 143
expect_stdout '^saved$'
expect_no_process_left
