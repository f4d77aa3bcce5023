#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that saves a checkpoint some steps after SIGTERM has its data loaders until then, also if a script has
# started it. PyTorch raises an exception when one of them is killed.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
DDPRUN=$real_ddprun

files() { [ "$(find "$folder" -name "$1.*" | wc -l)" = 2 ]; }

saves() {  # saves COMMAND...: it runs the program
  folder=$(new_folder)
  start --nproc_per_node 2 "$@" "$interop/data_loaders.py" "$folder"
  wait_until files trains
  kill -USR1 "$ddprun"
  wait_until files noticed
  kill -TERM "$ddprun"
  finish
  expect_exit 143
  files saved || fail 'not every rank has saved'
  expect_stderr 'ranks 0, 1 ended with exit code 0$'
  expect_no_process_left
}

saves "$python"
# shellcheck disable=SC2016
saves bash -c '"$@"; exit' - "$python"
if "$old_python" -c 'import torch; assert torch.__version__.startswith("1.13")' 2>/dev/null; then
  saves bash -c '"$@"; exit' - "$old_python"
fi
