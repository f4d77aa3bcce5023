#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch 1.13, whose store has an older protocol, works as under its own torchrun; after each of many
# restarts it gets an empty store at the same port.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
needs_old_torch
program=$interop/collectives.py

under old_torchrun --master_port "$(free_port)" --nproc_per_node 4 "$program" --scratch "$(new_folder)"
expect_exit 0
wanted=$(sorted_stdout)
for last in monitored_barrier file://; do
  grep -qx "$last ok" <<<"$wanted" || fail "no line: $last ok"
done

for options in '--store agent' '--store worker'; do
  for init in env tcp; do
    # shellcheck disable=SC2086
    under old_ddprun $options --nproc_per_node 4 "$program" --scratch "$(new_folder)" --init "$init"
    expect_exit 0
    [ "$(sorted_stdout)" = "$wanted" ] || fail "$options, $init: stdout differs from torchrun's: $wanted"
    expect_no_process_left
  done
done

seed=$RANDOM
under old_ddprun --nproc_per_node 2 --max_restarts 8 --rdzv_endpoint "$here:29500" \
  "$interop/train.py" --checkpoint "$(new_folder)/checkpoint" --kill "$seed"
expect_exit 0
expect_stdout 'attempt 8 begins'
[ "$(grep -c 'failed first: killed by SIGKILL' "$err")" = 8 ] || fail "seed $seed: not 8 deaths"
expect_no_process_left
