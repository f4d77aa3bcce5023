#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --store tunnel: PyTorch's groups on two nodes meet in a store that they reach through their agents, also
# those of PyTorch 1.13.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
program=$interop/collectives.py
"$real_ddprun" secret "$work/secret" || fail "no secret"

on_two_nodes() {  # on_two_nodes NAME PYTHON
  local job=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint "$here:29500" --secret_file "$work/secret" --store tunnel)
  local scratch node
  scratch=$(new_folder)
  DDPRUN=$real_ddprun
  for node in "$1.first" "$1.second"; do
    PYTHON_EXEC=$2 on "$node" start "${job[@]}" "$program" --scratch "$scratch"
  done
  for node in "$1.first" "$1.second"; do
    on "$node" finish
    expect_exit 0
    sorted_stdout >>"$work/$1.lines"
  done
  for last in monitored_barrier file://; do
    grep -qx "$last ok" "$work/$1.lines" || fail "$1: no line: $last ok"
  done
  expect_no_process_left
}

on_two_nodes new "$python"
needs_old_torch
on_two_nodes old "$old_python"
