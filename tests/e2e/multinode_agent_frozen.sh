#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An agent that hangs cannot stop its workers: its guardian kills them before the other nodes go on. Nothing
# reads its stderr, a full pipe, so it does all it has to do before it writes a line about it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)
program='[ "$RANK" = 0 ] || trap "" TERM; echo up; sleep 600; sleep 600'

mkfifo "$work/full"
exec 3<>"$work/full"
dd if=/dev/zero of="$work/full" bs=4096 count=1024 oflag=nonblock 2>/dev/null || true

on stays start "${job[@]}" sh -c "$program"
on freezes true
file=$err err=$work/full
start "${job[@]}" --rdzv_conf is_host=false sh -c "$program"
err=$file
wait_for_stdout up
on stays wait_for_event round_ready '"node_count":2,'
on stays only_later_events
on freezes
worker=$(worker_of) agent=$(agent_of)
kill -STOP "$agent"
on stays wait_for_event round_ready '"node_count":1,'
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }
runs $$ || fail "this test cannot detect running processes"
! runs "$worker" || fail "two rounds have workers"
kill -INT "$ddprun"
finish
expect_exit 130
is_reaped() { [ ! -e "/proc/$agent" ]; }
wait_until is_reaped
cat <&3 >/dev/null &
reader=$!
on freezes finish
expect_exit 137
kill "$reader"
expect_no_process_left
