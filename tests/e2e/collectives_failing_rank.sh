#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that ends with an error while the others wait for it in a call is reported as the first that
# failed, with its words, and its exit code is the job's.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ulimit -c 0

declare -A codes_of=([returns]=7 [catches]=1 [throws]=134)

expect_blamed() {  # expect_blamed RANK HOW
  expect_exit "${codes_of[$2]}"
  expect_stderr "^ddprun: .*rank $1 failed first: "
  expect_stderr "loss is nan"
}

check() {  # check RANKS HOW CALL
  run --nproc_per_node "$1" "$DDPRUN_BIN/failing_rank" "$2" "$3"
  expect_blamed $(($1 - 1)) "$2"
}

for how in returns catches throws; do
  for call in all_reduce barrier broadcast recv; do check 4 "$how" "$call"; done
  check 8 "$how" all_reduce
done
for call in iall_reduce send split; do check 2 returns "$call"; done
check 2 returns nothing  # nobody holds the rank at its end
FIRST_CALL=1 check 3 returns all_reduce
FIRST_CALL=1 check 3 returns recv
export DDP_TEST_WITHOUT_SHARED_MEMORY=1
for how in returns catches; do check 4 "$how" all_reduce; done
check 2 returns recv
unset DDP_TEST_WITHOUT_SHARED_MEMORY

for call in all_reduce recv; do
  job=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint "$here:29500" "${quick[@]}"
       "$DDPRUN_BIN/failing_rank" returns "$call")
  on a start --node_rank 0 "${job[@]}"
  on b start --node_rank 1 "${job[@]}"
  for node in a b; do on "$node" finish && expect_blamed 3 returns; done
done
expect_no_process_left
