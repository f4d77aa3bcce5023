#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun's own lines: who writes them if there are several nodes, when it was with --log_level debug and in a file, only
# errors with --quiet, and all of them as JSON with --log_format json.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fails=(--nproc_per_node 2 sh -c 'echo "$RANK"; exit 3')

for node in 0 1; do
  on "node$node" start --nnodes 2 --node_rank $node --rdzv_endpoint "$here:29500" --nproc_per_node 1 \
    sh -c 'exit 3'
done
for node in 0 1; do
  on "node$node" finish
  on "node$node" expect_exit 3
  on "node$node" expect_stderr "^ddprun: \[$(hostname)\] rank [01] failed first: exit 3 "
done
expect_no_process_left

on one run --log_level info "${fails[@]}"
expect_stderr '^ddprun: OMP_NUM_THREADS'
expect_stderr '^ddprun: rank [01] failed first: exit 3 '
on one run -q --max_restarts 1 "${fails[@]}"
expect_no_stderr 'OMP_NUM_THREADS|restart 1 of 1'
expect_stderr '^ddprun: rank [01] failed first: exit 3 '
expect_no_process_left

# A file is read later: what goes there has the time. In a pipe only --log_level debug has it.
dated='^20[0-9-]{8}T[0-9:]{8}\.[0-9]{3}Z ddprun: rank [01] failed first: exit 3 '
on one run --log_format text "${fails[@]}"
expect_stderr "$dated"
expect_no_stderr '^ddprun: '
in_a_pipe() {
  { env "$mark" "$DDPRUN" --log_format text "$@" "${fails[@]}" 2>&1 >/dev/null || true; } | cat >"$work/piped"
}
in_a_pipe
grep -qE '^ddprun: rank [01] failed first: exit 3 ' "$work/piped" || fail "in a pipe: $(cat "$work/piped")"
in_a_pipe --log_level debug
grep -qE "$dated" "$work/piped" || fail "in a pipe, with debug: $(cat "$work/piped")"
for line in 'rank [01] of round 0 is pid [0-9]+' 'rank [01] has ended after [0-9.]+ m?s: exit 3'; do
  grep -qE "Z ddprun: $line$" "$work/piped" || fail "in a pipe, with debug: $(cat "$work/piped")"
done
on one start --log_format text sh -c 'echo up; sleep 1000'
on one wait_for_stdout up
kill -KILL "$(agent_of)"
on one finish
expect_stderr "^20[0-9-]{8}T[0-9:.]*Z ddprun: ddprun's agent was killed by SIGKILL"
expect_no_process_left

# Each line of stderr is an object; the report is one of them.
all_json() {
  command -v python3 >/dev/null || skip "there is no python3"
  python3 - "$err" "$1" <<'END' || fail "not the JSON that was expected"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
found = [line for line in lines if sys.argv[2] in line["message"]]
assert len(found) == 1 and found[0]["level"] == "error" and found[0]["time"].endswith("Z"), lines
END
}
on one run --log_format json "${fails[@]}"
expect_exit 3
all_json 'failed first: exit 3'
on one start --log_format json sh -c 'echo up; sleep 1000'
on one wait_for_stdout up
kill -KILL "$(agent_of)"
on one finish
all_json "ddprun's agent was killed by SIGKILL"
expect_no_process_left
