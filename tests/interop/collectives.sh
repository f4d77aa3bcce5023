#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All of torch.distributed over gloo works as under torchrun, with either store and every init_method.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/collectives.py

expect_same() {
  expect_exit 0
  [ "$(sorted_stdout)" = "$wanted" ] || fail "stdout differs from torchrun's: $wanted"
}

wanted=$(sort <<'LINES'
all_reduce ok
broadcast ok
reduce ok
all_gather ok
all_gather_into_tensor ok
gather ok
scatter ok
reduce_scatter ok
reduce_scatter_tensor ok
all_to_all ok
all_to_all_single ok
send_recv ok
isend_irecv ok
batch_isend_irecv ok
objects ok
new_group ok
barrier ok
monitored_barrier ok
file:// ok
mp.spawn ok
LINES
)
if [ -n "$(reference_launcher)" ]; then
  under torchrun --nproc_per_node 2 "$program" --scratch "$(new_folder)" --spawn
  expect_same
fi
under ddprun --nproc_per_node 4 "$program" --scratch "$(new_folder)" --spawn
expect_same
expect_no_process_left

wanted=$(grep -v mp.spawn <<<"$wanted")
under ddprun --nproc_per_node 2 --store worker "$program" --scratch "$(new_folder)" --init tcp
expect_same
expect_no_process_left
