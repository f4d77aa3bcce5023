#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training whose workers are killed at random resumes from its checkpoint and ends with the same loss as
# one without failures; each attempt gets an empty store at the same port.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/train.py
seed=$RANDOM

loss() { sed -n 's/^.*loss \([0-9.]*\)$/\1/p' "$out"; }

killed() {  # killed LAUNCHER RESTARTS OPTIONS...
  under "$1" --nproc_per_node 2 --max_restarts "$2" "${@:3}" \
    "$program" --checkpoint "$(new_folder)/checkpoint" --kill "$seed"
  expect_exit 0
  [ "$(loss)" = "$wanted" ] || fail "seed $seed: loss $(loss), undisturbed $wanted"
  expect_stdout "attempt $2 begins with epoch [0-9]"
}

under ddprun --nproc_per_node 2 "$program"
expect_exit 0
wanted=$(loss)
[ -n "$wanted" ] || fail "no loss"

# torchrun 2.15 serves all attempts from one store, in which new workers find the addresses of dead
# ones; with this variable rank 0 serves a new one.
for launcher in $(reference_launcher); do
  TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 killed "$launcher" 1
done
killed ddprun 2 --rdzv_endpoint "$here:29500"
[ "$(grep -c 'failed first: killed by SIGKILL' "$err")" = 2 ] || fail "seed $seed: not 2 deaths"
expect_stderr 'restart 2 of 2'
expect_no_process_left
killed ddprun 1 --store worker
expect_no_process_left
