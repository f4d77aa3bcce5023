#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-Z on one node for longer than the lease: the others go on without it, its old workers never run
# again, and when it is continued it joins again.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export beats=$work/beats
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)

program='[ "$GROUP_RANK" != 0 ] || exec sleep 600
  trap "" TERM; echo up; while :; do echo beat >>"$beats.$$"; sleep 0.01; done'

on stays start "${job[@]}" bash -c "$program"
on stops start "${job[@]}" --rdzv_conf is_host=false bash -c "$program"
wait_for_stdout up
on stays wait_for_event round_ready '"node_count":2,'
on stays only_later_events
on stops
worker=$(worker_of)
kill -TSTP "$ddprun"
on stays wait_for_event round_ready '"node_count":1,'
before=$(wc -l <"$beats.$worker")
on stops
kill -CONT "$ddprun"
joined_twice() { [ "$(grep -c '"event":"round_ready"' "$events")" = 2 ]; }
wait_until joined_twice
[ "$(wc -l <"$beats.$worker")" = "$before" ] || fail "the worker of an old round ran again"
expect_stderr "for 4 s \(--lease\): killing this node's workers"
expect_no_stderr 'the workers run on'
on stays
kill -INT "$ddprun"
finish
on stops
kill -INT "$ddprun"
finish
expect_exit 130
expect_no_process_left
