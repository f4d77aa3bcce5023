#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of the collectives library starts in every supported way: under ddprun, with either
# store, without a launcher, and under each installed mpirun.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
hello=$DDPRUN_BIN/allreduce_hello

expect_four_sums() {
  local rank
  [ "$code" = 0 ] || fail "exit code $code"
  for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
  [ "$(grep -c sum "$out")" = 4 ] || fail "a rank printed its sum more than once"
}

for store in agent worker; do
  run --nproc_per_node 4 --store "$store" "$hello"
  expect_four_sums
  expect_no_process_left
done

straight() {
  code=0
  env "$mark" timeout "$deadline" "$@" </dev/null >"$out" 2>"$err" || code=$?
}
straight "$hello" 4
expect_four_sums
straight "$hello"
[ "$code" = 1 ] || fail "exit code $code without a launcher"
expect_stderr '^ddp: RANK is not set: start the program with ddprun'
for many in x 0 4x; do
  straight "$hello" "$many"
  [ "$code" = 2 ] || fail "exit code $code for $many processes"
  expect_stderr "^allreduce_hello: processes $many: expected a number, at least 1\$"
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for mpirun in mpirun.openmpi mpirun.mpich; do
  if ! command -v "$mpirun" >/dev/null; then
    echo "not here, and so not tested: $mpirun"
    continue
  fi
  enough=()
  [ "$mpirun" = mpirun.mpich ] || enough=(--oversubscribe)
  straight "$mpirun" "${enough[@]}" -n 4 "$hello"
  expect_four_sums
done

expect_no_process_left soon  # mpirun's own may end after it
