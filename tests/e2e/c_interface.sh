#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The C interface, from C: each call with 1 to 4 ranks, and failures by value.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=$DDPRUN_BIN/c_interface
[ -e "$program" ] || skip "this build has no C"

for ranks in 1 2 3 4; do
  mkdir "$work/$ranks"
  run --nproc_per_node "$ranks" "$program" all "$work/$ranks"
  expect_exit 0
  grep -q '"all_to_all_v"' "$work/$ranks/trace_0" || fail "no trace of the calls"
done
run --nproc_per_node 3 "$DDPRUN_BIN/allreduce_hello_c"
expect_exit 0
for rank in 0 1 2; do expect_stdout "rank $rank of 3: the sum is 6\$"; done

# The error has the rank that messages name: of the first group, not of the one that fails.
run --nproc_per_node 3 "$program" mismatch
expect_exit 0
for rank in 0 1 2; do expect_stdout "kind 5 on rank $rank: ddp: rank $rank .*rank 1 is at #1 barrier"; done

run --nproc_per_node 3 "$program" lost
expect_exit 137
for rank in 0 2; do expect_stdout "kind 4 on rank $rank: ddp: rank $rank .*rank 1"; done

# The rank that fails ends before those that wait for it.
run --nproc_per_node 2 "$program" fail
expect_exit 1
expect_stderr 'rank 1 failed first'
expect_stderr 'bad luck'
mkdir "$work/spawned"
run --nproc_per_node 1 --no_python "$program" spawn "$work/spawned"
expect_exit 0
expect_no_process_left
