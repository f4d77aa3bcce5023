#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# JAX's processes connect as docs/jax.md describes, on one node and on two, also beside a store behind tunnels.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
export JAX_PLATFORMS=cpu
program=$interop/psum.py

for launcher in $(reference_launcher); do
  TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 under "$launcher" --nproc_per_node 2 "$program"
  expect_exit 0
  expect_stdout '^process 1 of 2: 3$'
done
under ddprun --nproc_per_node 2 "$program"
[ "$code" != 0 ] || fail "JAX's coordinator shares ddprun's port"
expect_stderr '^        a server of the program.s own, .* needs MASTER_PORT: --store worker leaves it to rank 0$'
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 under ddprun --nproc_per_node 2 "$program"
expect_exit 0
for rank in 0 1; do expect_stdout "^\[$rank\] process $rank of 2: 3$"; done
expect_no_process_left

DDPRUN=$real_ddprun
on_two_nodes() {  # on_two_nodes OPTIONS... PROGRAM ARGUMENTS...
  local job=(--nnodes 2 --rdzv_endpoint "$here:29500" "$@")
  on first start --nproc_per_node 2 "${job[@]}"
  on second start --nproc_per_node 1 "${job[@]}"
  for node in first second; do
    on "$node" finish
    expect_exit 0
    [ "$(grep -c 'process [012] of 3: 6$' "$out")" -gt 0 ] || fail "no sum of three"
  done
}
on_two_nodes --store worker "$program"
"$real_ddprun" secret "$work/secret" || fail "no secret"
on_two_nodes --secret_file "$work/secret" --store tunnel "$program" "$(free_port)"
expect_no_process_left
