#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --preload DistributedDataParallel, FSDP2 and DCP compute what they do without it, and JAX finds its processes.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
DDPRUN=$real_ddprun

run --nproc_per_node 2 "$interop/preload_stacks.py" "$(new_folder)"
expect_exit 0
sorted_stdout >"$work/plain"
[ "$(wc -l <"$work/plain")" = 4 ] || fail "not two losses of each rank"
run --nproc_per_node 2 --preload torch,torch.distributed.fsdp,torch.distributed.checkpoint \
  "$interop/preload_stacks.py" "$(new_folder)" imported
expect_exit 0
expect_no_stderr 'no effect'
sorted_stdout | diff "$work/plain" - || fail "another loss"
expect_no_process_left

JAX_PLATFORMS=cpu run --store worker --nproc_per_node 2 --preload jax "$interop/psum.py"
expect_exit 0
expect_no_stderr 'no effect'
for rank in 0 1; do expect_stdout "^\[$rank\] process $rank of 2: 3$"; done
expect_no_process_left
