#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The limits of restarts apply to all nodes together: --max_restarts within a time, --min_uptime.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

both() {  # both OPTIONS... PROGRAM...
  for node in a b; do
    on "$node" start --nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" "$@"
  done
  for node in a b; do on "$node" finish; done
}

# Each node fails once, then rank 0 again: three failures in the whole job, two are allowed.
both --max_restarts 2/1h sh -c '
  [ "$RANK" = "$((TORCHELASTIC_RESTART_COUNT % 2))" ] && exit 4; exec sleep 600'
for node in a b; do
  on "$node" expect_exit 4
  expect_stderr 'restart 1 of 2: round 1'
  expect_stderr 'restart 2 of 2: round 2'
  expect_stderr '^ +exit code 4; no restart left \(2 of 2 used within 1 h\)$'
done
expect_no_process_left

# After the window restarts are available again.
both --max_restarts 1/50ms sh -c '
  [ "$TORCHELASTIC_RESTART_COUNT" = 3 ] && exit 0
  [ "$RANK" = 1 ] && { sleep 0.2; exit 4; }; exec sleep 600'
for node in a b; do on "$node" expect_exit 0; done
expect_no_process_left

both --max_restarts 5 --min_uptime 1h sh -c '[ "$RANK" = 1 ] && exit 4; exec sleep 600'
for node in a b; do
  on "$node" expect_exit 4
  expect_stderr 'exit code 4; not restarted: round 0 failed .* within --min_uptime 1 h: it never got past its start$'
done
expect_no_process_left

# The pause: both print it, and neither starts before it is over.
both --max_restarts 1 --restart_backoff 8s sh -c '
  [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0; [ "$RANK" = 1 ] && exit 4; exec sleep 600'
for node in a b; do
  on "$node" expect_exit 0
  expect_stderr 'waiting [0-9.]+ s for the end of a pause of 8 s after the failure \(--restart_backoff\)'
done
expect_no_process_left
