#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node whose processes are all stopped is lost when its lease is over, and the others go on; when it
# continues it kills its old workers and joins again.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)
program='[ "$RANK" = 0 ] || trap "" TERM; echo up; sleep 600; sleep 600'

on stays start "${job[@]}" sh -c "$program"
on freezes start "${job[@]}" --rdzv_conf is_host=false sh -c "$program"
wait_for_stdout up
on stays wait_for_event round_ready '"node_count":2,'
on stays only_later_events
on freezes
worker=$(worker_of) agent=$(agent_of)
has_child() { pgrep -P "$worker" >/dev/null; }
wait_until has_child
child=$(pgrep -P "$worker")
only_later_events
kill -STOP "$ddprun" "$agent" "$worker" "$child"
on stays wait_for_event round_ready '"node_count":1,'
expect_stderr 'node 1 \(.*\) is gone: silent for .* \(--lease 4 s\)'

on freezes
for pid in "$agent" "$ddprun" "$worker" "$child"; do
  kill -CONT "$pid" 2>/dev/null || true  # those that continue first kill the others
done
wait_for_event worker_ended "\"pid\":$worker,\"code\":137"
wait_for_event round_ready '"node_rank":1,"node_count":2,'
[ ! -e "/proc/$child" ] || fail "a process of the old round is left"
for node in stays freezes; do on "$node" && kill -INT "$ddprun"; done
for node in stays freezes; do on "$node" finish && expect_exit 130; done
expect_no_process_left
