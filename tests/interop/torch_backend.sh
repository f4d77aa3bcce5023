#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The backend ddp of torch.distributed: each call with 2 and 4 ranks, training, failures as exceptions that name ranks.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
package=$(realpath "$DDPRUN_BIN/../python")
[ -e "$package/ddp/_native.abi3.so" ] || skip "ddp for Python is not built: it needs Python's headers"
export PYTHONPATH=$package
program=$interop/torch_backend.py

for ranks in 2 4; do
  under ddprun --nproc_per_node "$ranks" "$program" operations
  expect_exit 0
done

under ddprun --preload torch --nproc_per_node 2 "$program" beside  # the template imports the backend
expect_exit 0

under ddprun --nproc_per_node 3 "$program" lost
expect_exit 137
for rank in 0 2; do expect_stdout "rank $rank: .*(lost rank 1 |rank 1 on host [^ ]+ was killed by SIGKILL)"; done

under ddprun --nproc_per_node 4 "$program" mismatch
expect_exit 0
for rank in 1 2 3; do expect_stdout "rank $rank: .*rank 1 is at #1 barrier, the others at #1 all_reduce"; done

under ddprun --nproc_per_node 3 "$program" late
expect_exit 0
for rank in 0 2; do expect_stdout "rank $rank: .*timed out after 2 s in #1 all_reduce .*: rank 1 is in no call"; done

under ddprun --nproc_per_node 3 "$program" absent
expect_exit 0
expect_stdout 'rank 0: ddp: Rank 1 failed to pass monitoredBarrier in 2000 ms'
expect_stdout 'rank 2: ddp: Rank 2 successfully reached monitoredBarrier, but received errors '

under ddprun --nproc_per_node 2 "$program" aborted
expect_exit 0
expect_stdout 'rank 0: ddp: rank 0 aborted the group'
for config in cpu:ddp,cuda:gloo cuda:gloo,cpu:ddp; do
  under ddprun --nproc_per_node 2 "$program" devices "$config"
  expect_exit 0
done

under ddprun --nproc_per_node 2 "$program" stacks "$(new_folder)"
expect_exit 0
expect_no_process_left
