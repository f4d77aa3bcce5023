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

over_mpi=()
check() {  # check RANKS HOW CALL
  run "${over_mpi[@]}" --nproc_per_node "$1" "$DDPRUN_BIN/failing_rank" "$2" "$3"
  expect_blamed $(($1 - 1)) "$2"
}

# Every call, with 2 to 8 ranks that end in each of the ways.
calls=(barrier broadcast reduce all_reduce little gather gather_v all_gather all_gather_v scatter scatter_v
       reduce_scatter reduce_scatter_v all_to_all all_to_all_v allocate iall_reduce objects split recv irecv send batch)
ways=(returns catches throws)
for i in "${!calls[@]}"; do check $((2 + i % 7)) "${ways[i % 3]}" "${calls[i]}"; done
check 2 returns nothing  # nobody holds the rank at its end
export FIRST_CALL=1
for call in all_reduce recv; do check 3 returns "$call"; done
unset FIRST_CALL

export DDP_TEST_WITHOUT_SHARED_MEMORY=1
for call in all_reduce barrier gather recv; do check 4 returns "$call"; done
check 3 catches all_to_all
FIRST_CALL=1 check 3 returns all_reduce
unset DDP_TEST_WITHOUT_SHARED_MEMORY

export DDP_TEST_BACKEND=nccl LD_LIBRARY_PATH=$DDPRUN_BIN/../tests/collectives/fake_gpu
if [ -e "$LD_LIBRARY_PATH" ]; then
  check 3 returns all_reduce
  for how in "${ways[@]}"; do check 4 "$how" on_device; done
fi
unset LD_LIBRARY_PATH
export DDP_TEST_BACKEND=mpi CUDA_VISIBLE_DEVICES='' OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ -e "$DDPRUN_BIN/../lib/libddp_mpi.so" ] && [ -z "${TSAN_OPTIONS:-}" ]; then
  over_mpi=(--mpi both)
  export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0  # without MPI_Finalize, MPI's memory stays
  for call in all_reduce recv; do check 3 returns "$call"; done
  check 2 catches barrier
fi
unset DDP_TEST_BACKEND CUDA_VISIBLE_DEVICES

for call in all_reduce recv; do
  job=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint "$here:29500" "${quick[@]}"
       "$DDPRUN_BIN/failing_rank" returns "$call")
  on a start --node_rank 0 "${job[@]}"
  on b start --node_rank 1 "${job[@]}"
  for node in a b; do on "$node" finish && expect_blamed 3 returns; done
done
expect_no_process_left
