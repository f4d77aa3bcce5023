#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that a finished worker left behind are signalled together with the running workers, not
# after them: here a worker waits for such a process.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export SIGNALLED=$work/signalled READY=$work/ready
mkfifo "$SIGNALLED" "$READY"
cat >"$work/worker" <<'END'
if [ "$RANK" = 0 ]; then
  bash -c 'trap "echo >\"\$SIGNALLED\"; exit 0" TERM; echo >"$READY"; while :; do sleep 600 & wait; done' &
  read -r <"$READY"
  exit 0
fi
trap 'read -r <"$SIGNALLED"; echo waited; exit 0' TERM
echo here
while :; do sleep 600 & wait; done
END
start --shutdown_timeout 3600 --nproc_per_node 2 bash "$work/worker"
wait_for_stdout '^\[1\] here$'
wait_for_event worker_ended
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stdout '^\[1\] waited$'
expect_no_process_left
