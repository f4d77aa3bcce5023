#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch 1.13, whose store has an older protocol, works as under its own torchrun; after each restart it
# gets an empty store at the same port.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
needs_old_torch
program=$interop/collectives.py
wanted=''

works() {  # works LAUNCHER INIT OPTIONS...: prints what the first one did
  under "$1" "${@:3}" "$program" --scratch "$(new_folder)" --init "$2"
  expect_exit 0
  wanted=${wanted:-$(sorted_stdout)}
  [ "$(sorted_stdout)" = "$wanted" ] || fail "$*: stdout differs from the first: $wanted"
}

[ -z "$(reference_launcher)" ] ||
  works old_torchrun env --master_port "$(free_port)" --nproc_per_node 4
works old_ddprun env --nproc_per_node 4
expect_no_process_left
for last in monitored_barrier file://; do
  grep -qx "$last ok" <<<"$wanted" || fail "no line: $last ok"
done
works old_ddprun tcp --nproc_per_node 2
works old_ddprun env --nproc_per_node 2 --store worker
works old_ddprun tcp --nproc_per_node 2 --store worker
expect_no_process_left

seed=$RANDOM
under old_ddprun --nproc_per_node 2 --max_restarts 4 --rdzv_endpoint "$here:29500" \
  "$interop/train.py" --checkpoint "$(new_folder)/checkpoint" --kill "$seed"
expect_exit 0
expect_stdout 'attempt 4 begins'
[ "$(grep -c 'failed first: killed by SIGKILL' "$err")" = 4 ] || fail "seed $seed: not 4 deaths"
expect_no_process_left
