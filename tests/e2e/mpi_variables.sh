#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever --mpi is, and inside another launcher's job of MPI, too, frameworks that read variables of MPI's launchers
# find ddprun's ranks.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
worker=$(dirname "${BASH_SOURCE[0]}")/mpi_variables.py

outer=()
for name in PMI_RANK PMI_SIZE PMI_FD PMI_PORT PMI_ID PMIX_RANK PMIX_NAMESPACE MPI_LOCALRANKID MPI_LOCALNRANKS \
  OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_MCA_orte_hnp_uri MV2_COMM_WORLD_RANK \
  MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_LOCAL_RANK PALS_RANKID PALS_SIZE JSM_NAMESPACE_RANK RANK WORLD_SIZE LOCAL_RANK; do
  outer+=("$name=77")
done

for inside in "" "${outer[*]}"; do
  for mpi in auto none pmi1 pmix both; do
    command_prefix[only]=$inside
    run --mpi "$mpi" --nproc_per_node 2 "$worker"
    [ "$code" != 125 ] || [ "$mpi" != pmix ] || continue  # there is no libpmix
    expect_exit 0
    kind=MPI
    case $mpi in auto | none) kind=alone ;; esac
    for rank in 0 1; do expect_stdout "place $rank 2 $rank $kind$"; done
  done
done
expect_no_process_left
