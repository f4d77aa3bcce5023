#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi4py's own tests pass under ddprun with each MPI of PyPI, on one node and on two: those of sessions, groups and
# communicators, which depend on the launcher, and some that send.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
tests=$environment/mpi4py_tests
[ -d "$tests" ] || skip "no tests of mpi4py: scripts/setup --interop gets them"
DDPRUN=$real_ddprun
export OPAL_PREFIX=$environment/mpi/openmpi OMPI_MCA_osc=^ucx  # which prints pages without its devices
export LD_LIBRARY_PATH

options() {  # options PROTOCOL PART...
  printf '%s\n' --mpi "$1" --nproc_per_node 2 "$tests/main.py"
  printf -- '-i\n%s\n' "${@:2}"
}

expect_passed() {  # expect_passed RANK...
  local rank
  expect_exit 0
  for rank in "$@"; do expect_stderr "^\\[$rank\\] OK"; done
}

for mpi in mpich openmpi impi-rt; do
  echo "$mpi" >&2
  LD_LIBRARY_PATH=$environment/mpi/$mpi/lib:$environment/mpi/$mpi/lib/openmpi
  protocol=pmi1 parts=(session test_group test_comm.py)
  [ $mpi != openmpi ] || protocol=pmix parts+=(cco_obj p2p_obj)
  mapfile -t command < <(options $protocol "${parts[@]}")
  on only run "${command[@]}"
  expect_passed 0 1

  endpoint=127.0.0.1:$(free_port)
  mapfile -t command < <(options $protocol session test_group test_comm_inter)
  for node in 0 1; do
    on $node start "${quick[@]}" --nnodes 2 --node_rank $node --rdzv_endpoint "$endpoint" "${command[@]}"
  done
  for node in 0 1; do on $node finish; done
  on 0 expect_passed 0 1
  on 1 expect_passed 2 3
done
expect_no_process_left
