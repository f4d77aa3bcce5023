#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The guardian of an agent that hangs kills the workers, and what they started, before it looks through /proc,
# which takes long on a host with many processes or little time: no two rounds have workers.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

library=$DDPRUN_BIN/libstalling_open.so
[ -e "$library" ] || skip "$library is not built: a sanitizer has to be loaded first"
command_prefix[freezes]="env LD_PRELOAD=$library STALLING_FOLDER=/proc STALLING_WHILE=$work/slow"
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)
# One worker has a child that computes in its place.
program='[ "$RANK" = 0 ] || trap "" TERM; [ "$LOCAL_RANK" = 0 ] || { sh -c "sleep 600; sleep 600" & echo $! >"$0/child"; }
  echo up; sleep 600; sleep 600'

on stays start "${job[@]}" sh -c "$program" "$work"
on freezes start "${job[@]}" --rdzv_conf is_host=false --nproc_per_node 2 sh -c "$program" "$work"
on stays wait_for_event round_ready '"node_count":2,'
on stays only_later_events
on freezes
for rank in 1 2; do wait_for_stdout "^\[$rank\] up"; done
processes=("$(worker_of 1)" "$(worker_of 2)" "$(<"$work/child")")
touch "$work/slow"
kill -STOP "$(agent_of)"
on stays wait_for_event round_ready '"node_count":1,'
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }
runs $$ || fail "this test cannot detect running processes"
for process in "${processes[@]}"; do ! runs "$process" || fail "two rounds have workers"; done
rm "$work/slow"
kill -INT "$ddprun"
finish
expect_exit 130
on freezes finish
expect_exit 137
expect_no_process_left
