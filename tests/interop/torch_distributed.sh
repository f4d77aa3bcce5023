#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's own tests of torch.distributed pass with the backend ddp: all that run with gloo on the CPU.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
package=$(realpath "$DDPRUN_BIN/../python")
[ -e "$package/ddp/_native.abi3.so" ] || skip "ddp for Python is not built: it needs Python's headers"
export PYTHONPATH=$package
deadline=${DDPRUN_TEST_DEADLINE:-500}

under ddprun --nproc_per_node 3 "$interop/torch_distributed.py" ddp "$(new_folder)"
expect_exit 0
for rank in 0 1 2; do expect_stdout "^\\[$rank\\] passed [1-9][0-9], failed 0"; done
expect_no_process_left
