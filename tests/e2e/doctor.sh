#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun doctor on one node: what is wrong with it, with what to do, and exit code 1.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run doctor --web --log_dir "$work/logs" true  # is well, but for what this machine lacks
[ "$code" -le 1 ] || expect_exit 0
expect_stdout "^(ok|warn) .* disk: $work/logs has .* free$"
expect_stdout '^doctor: [0-9]+ failures?, [0-9]+ warnings?, [0-9]+ ok; 1 node$'
has_event job_ended || fail "no event of the end"
[ ! -e "$work/logs" ] || fail "it made the log folder"
[ ! -s "$err" ] || fail "something is on stderr"

(
  ulimit -n 200
  export NCCL_SOCKET_IFNAME=none7
  run doctor --log_dir "$work/only/a/file" "$work/nowhere"
  expect_exit 1
  expect_stdout "^FAIL  program: cannot run $work/nowhere: no such file"
  expect_stdout '^FAIL  open files: a process may have 200 open'
  expect_stdout '^      -> ulimit -n 65536'
  expect_stdout '^FAIL  interface: NCCL_SOCKET_IFNAME=none7: no interface of this name'
) || exit 1

CUDA_VISIBLE_DEVICES='' run doctor --nproc_per_node gpu true
expect_exit 1
expect_stdout '^FAIL  workers: --nproc_per_node gpu needs a GPU, '
expect_stdout '^      -> nvidia-smi -L lists the GPUs '
expect_no_stdout '^FAIL  program: '

touch "$work/file"
run doctor --log_dir "$work/file/logs"
expect_exit 1
expect_stdout "^FAIL  disk: $work/file/logs cannot be written: Not a directory$"

# It says what --preload saves where workers would import for long. The module is not the real one.
if python=$(command -v python3); then
  echo 'import time; time.sleep(1)' >"$work/torch.py"
  printf 'from torch import nn\nimport json\n' >"$work/train.py"
  PYTHON_EXEC=$python run doctor --nproc_per_node 2 "$work/train.py"
  expect_stdout '^warn  imports: each of 2 workers of a node would import torch for more than [0-9]+ s$'
  expect_stdout '^      -> --preload torch imports it once on each node$'
  for flags in '--nproc_per_node 1' '--nproc_per_node 2 --preload torch'; do
    # shellcheck disable=SC2086
    PYTHON_EXEC=$python run doctor $flags "$work/train.py"
    expect_stdout '^doctor: .*; 1 node$'
    expect_no_stdout 'imports'
    expect_no_stdout 'gloo'
    [ ! -s "$err" ] || fail "something is on stderr"
  done
  for call in 'dist.init_process_group("gloo")' 'init_process_group(backend="gloo", rank=0)'; do
    printf 'import json\n%s\n' "$call" >"$work/train.py"
    PYTHON_EXEC=$python run doctor "$work/train.py"
    expect_stdout '^warn  gloo: line 2 of the program makes a group of gloo$'
  done
fi

# Another program has the port.
on serve start serve --rdzv_endpoint "$here:29500"
wait_for_event serving
on only run doctor --rdzv_endpoint "$here:29500"
expect_exit 1
expect_stdout "^FAIL  rendezvous: cannot listen on $here:29500: Address already in use"
expect_stdout '^      -> another job or program has the port'
on serve true
kill "$ddprun"
finish
on only true

out=/dev/full
run doctor
expect_exit 125
expect_stderr 'cannot write the report: No space left on device'
expect_no_process_left
