#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --preload torch PyTorch's own programs run as without it: a group of gloo before and after a restart, data loaders
# that are forked and spawned, @record, threads and seeds. torchrun has nothing like it.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
DDPRUN=$real_ddprun
program=$interop/preload.py
modules=torch,torch.distributed,torch.utils.data

run --nproc_per_node 4 --max_restarts 1 --preload $modules "$program" fail
expect_exit 0
expect_no_stderr 'no effect'
expect_stderr 'restart 1 of 1'
for rank in 0 1 2 3; do expect_stdout "^\[$rank\] sum 10.0 after restart 1, imported before: True, threads 1$"; done
for method in fork spawn forkserver; do
  [ "$(grep -c "$method: \[0.0, 1.0, 4.0, 9.0\]$" "$out")" = 4 ] || fail "data loaders by $method"
done
[ "$(grep -o 'seed [0-9]*' "$out" | sort -u | wc -l)" = 1 ] || fail 'torch has its own seed on each rank'
[ "$(grep -o 'numpy [0-9.]*' "$out" | sort -u | wc -l)" = 4 ] || fail "numpy's numbers are the same on all ranks"
expect_no_process_left

# An exception that @record writes.
run --nproc_per_node 2 --preload $modules "$program" raise
expect_exit 1
expect_stderr 'ValueError: as asked'
expect_stderr 'preload.py.*in main'
expect_no_process_left

# One worker computes with as many threads as without --preload.
for variables in A=b OMP_NUM_THREADS=2 OMP_NUM_THREADS=1; do
  command_prefix[only]="env -u OMP_NUM_THREADS $variables"
  run "$program" threads
  before=$(grep threads "$out")
  run --preload torch "$program" threads
  expect_no_stderr 'no effect'
  [ "$before" = "$(grep threads "$out")" ] || fail "$variables: $before, and then $(grep threads "$out")"
done
command_prefix[only]=''

# The stack of a worker that hangs shows the place.
start --nproc_per_node 2 --preload $modules "$program" hang
wait_for_stdout '\[1\] hangs'
"$DDPRUN" stacks "$ddprun" >"$work/stacks"
grep -q '^forgotten (preload.py:' "$work/stacks" || fail "$(cat "$work/stacks")"
py-spy dump --pid "$(worker_of 1)" >"$work/dump"
grep -qE '^ +forgotten \(.*preload\.py:[0-9]+\)$' "$work/dump" || fail "$(cat "$work/dump")"
# The hook of the flight recorder came with the template.
"$DDPRUN" status "$ddprun" >"$work/status"
grep -q '#1 barrier' "$work/status" || fail "$(cat "$work/status")"
# The libraries are mapped in workers only: they have 200 MiB that each of these reads where it runs.
has_few_libraries() {
  awk '/^Rss:/ { all = $2 } /^Anonymous:/ { own = $2 } END { exit !(all - own < 100 * 1024) }' \
    "/proc/$(pgrep -f "^ddp-preload of $(agent_of)\$")/smaps_rollup"
}
wait_until has_few_libraries
kill "$ddprun"
finish
expect_no_process_left
