# SPDX-License-Identifier: Apache-2.0
"""A worker: frameworks that also read variables of MPI's launchers find its place, by the first name that is set.

The names are in the order in which each framework's source has them: rank, number of ranks, local rank.
"""
import os

FRAMEWORKS = {
    "PyTorch": (  # torch/distributed/rendezvous.py
        "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "libtorch's torchcomm": (  # names in libtorch_cuda.so; without one of these it asks the store
        "TORCHCOMM_RANK OMPI_COMM_WORLD_RANK PMI_RANK PALS_RANKID",
        "TORCHCOMM_SIZE OMPI_COMM_WORLD_SIZE PMI_SIZE PALS_SIZE", ""),
    "accelerate": (  # utils/environment.py, get_cpu_distributed_information
        "RANK PMI_RANK OMPI_COMM_WORLD_RANK MV2_COMM_WORLD_RANK",
        "WORLD_SIZE PMI_SIZE OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE",
        "LOCAL_RANK MPI_LOCALRANKID OMPI_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK"),
    "Lightning": (  # utilities/rank_zero.py, _get_rank
        "RANK LOCAL_RANK SLURM_PROCID JSM_NAMESPACE_RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "DeepSpeed": (  # comm/comm.py, init_distributed: RANK, or MPI if one of its names is missing
        "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "DeepSpeed's launcher": (  # launcher/launcher_helper.py
        "PMIX_RANK PMI_RANK OMPI_COMM_WORLD_RANK", "", "MPI_LOCALRANKID OMPI_COMM_WORLD_LOCAL_RANK"),
    "NVSHMEM": (  # names in nvshmem_bootstrap_pmi.so
        "PMI_RANK", "PMI_SIZE", ""),
    "LAMMPS, Kokkos and many scripts": (
        "OMPI_COMM_WORLD_RANK MV2_COMM_WORLD_RANK PMI_RANK", "OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE PMI_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID"),
}  # fmt: skip
LAUNCHERS = {  # taken for theirs by the name alone
    "JAX takes Open MPI's for its launcher (clusters/ompi_cluster.py)": "OMPI_MCA_orte_hnp_uri",
    "a PMI that is connected by a port (nvshmem_bootstrap_pmi.so)": "PMI_PORT",
}

place = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
for framework, lists in FRAMEWORKS.items():
    for names, expected in zip(lists, place):
        found = [name for name in names.split() if name in os.environ]
        if found:
            assert os.environ[found[0]] == expected, f"{framework}: {found[0]}={os.environ[found[0]]}, not {expected}"
for what, name in LAUNCHERS.items():
    assert name not in os.environ, f"{what}: {name}"
for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):  # DeepSpeed and Lightning look no further then
    assert name in os.environ
print("place", *place, "MPI" if any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK")) else "alone")
