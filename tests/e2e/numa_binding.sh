#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers run on the CPUs of --numa_binding, and only on those that ddprun itself may use;
# --report_bindings prints them before they start.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

allowed() { sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status; }
inherited=$(allowed)
first=${inherited%%[,-]*} last=${inherited##*[,-]}
export -f allowed
show='echo "on $(allowed)"'

run --nproc_per_node 2 --report_bindings bash -c "$show"
expect_exit 0
expect_stdout "^\[0\] on $inherited$"
expect_stderr "^ddprun: rank 1 \(local 1\): CPUs? $inherited \(inherited\)$"
expect_no_process_left

for how in node socket core-complex exclusive; do
  run --nproc_per_node 1 --numa_binding "$how" --report_bindings bash -c "$show"
  expect_exit 0
  line=$(sed -n 's/^ddprun: rank 0 (local 0): CPUs\{0,1\} \([0-9,-]*\) (NUMA nodes\{0,1\} [0-9,-]*)$/\1/p' "$err")
  [ -n "$line" ] || fail 'the binding was not printed'
  expect_stdout "^on $line$"
  expect_no_process_left
done

# In a container with one CPU.
command_prefix[$name]="taskset -c $last"
run --nproc_per_node 2 --numa_binding node bash -c "$show"
expect_exit 0
expect_stdout "^\[0\] on $last$"
expect_stdout "^\[1\] on $last$"
expect_no_process_left

run --nproc_per_node 2 --numa_binding exclusive true
expect_exit 2
expect_stderr '^ddprun: --numa_binding exclusive: needs a core for each worker, but 2 workers have 1 core$'
expect_no_process_left
command_prefix[$name]=''

[ "$first" != "$last" ] || { run true; expect_no_process_left; exit 0; }

# A machine with a core and a NUMA node for each CPU, also after a restart.
export HWLOC_SYNTHETIC="numa:$((last + 1)) core:1 pu:1"
command_prefix[$name]="taskset -c $first,$last"
run --nproc_per_node 2 --max_restarts 1 --numa_binding exclusive --report_bindings bash -c "$show"'
  [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
  if [ $RANK = 1 ]; then touch "$0"; exec sleep 600; fi
  until [ -e "$0" ]; do sleep 0.01; done
  exit 1' "$work/failed"
expect_exit 0
expect_stderr "^ddprun: rank 0 \(local 0\): CPU $first \(NUMA node $first\)$"
expect_stderr "^ddprun: rank 1 \(local 1\): CPU $last \(NUMA node $last\)$"
[ "$(grep -cx "\[0\] on $first" "$out")" = 2 ] || fail 'rank 0 was not bound in both rounds'
[ "$(grep -cx "\[1\] on $last" "$out")" = 2 ] || fail 'rank 1 was not bound in both rounds'
expect_no_process_left
