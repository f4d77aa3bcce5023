#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers that are linked with MPI do not know of each other: that is said where there are several.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v mpicc >/dev/null || skip "there is no mpicc"
cat >"$work/hello.c" <<'END'
#include <mpi.h>

int main(int argc, char** argv) {
  return argc > 9 ? MPI_Init(&argc, &argv) : 0;
}
END
mpicc -o "$work/hello" "$work/hello.c"

run --nproc_per_node 2 "$work/hello"
expect_exit 0
expect_stderr "^ddprun: $work/hello is linked with MPI, whose ranks ddprun does not connect: each worker may be rank 0 of 1;"
run "$work/hello"
expect_no_stderr MPI
run --nproc_per_node 2 "$DDPRUN_BIN/allreduce_hello"
expect_no_stderr MPI
expect_no_process_left
