#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package ddp: each call with 1 to 4 ranks, on arrays of numpy, PyTorch and JAX; failures as exceptions.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
package=$(realpath "$DDPRUN_BIN/../python")
[ -e "$package/ddp/_native.abi3.so" ] || skip "ddp for Python is not built: it needs Python's headers"
export PYTHONPATH=$package JAX_PLATFORMS=cpu
program=$interop/ddp_package.py

for ranks in 1 2 3 4; do
  under ddprun --nproc_per_node "$ranks" "$program" all "$(new_folder)"
  expect_exit 0
done
under ddprun --nproc_per_node 2 "$program" libraries
expect_exit 0

under ddprun --nproc_per_node 3 "$program" mismatch
expect_exit 0
for rank in 0 1 2; do expect_stdout "rank $rank: mismatch\$"; done

under ddprun --nproc_per_node 3 "$program" lost
expect_exit 137
for rank in 0 2; do expect_stdout "rank $rank: peer_lost "; done

# The rank that raises leaves its group, so that no other waits for it, and the report has its traceback.
under ddprun --nproc_per_node 3 "$program" raise
expect_exit 1
expect_stderr 'rank 1 failed first: exit 1'
expect_stderr 'ValueError: bad luck'

"$python" "$program" spawn || fail "ddp.spawn"
expect_no_process_left
