// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/store.h"

namespace ddp {

/// Settings of NCCL's communicators: those of ncclConfig_t except numRmaCtx, which is for one-sided
/// calls, and ddp makes none. NCCL decides settings that are empty. Errors of init_process_group():
/// usage (a setting needs a later NCCL than is loaded, or than libddp was built for).
struct NcclOptions {
  std::optional<int> cga_cluster_size = {};  ///< of NCCL's kernels on Hopper GPUs and later: 0 to 8
  std::optional<int> min_ctas = {};          ///< the fewest blocks of a kernel: above 0
  std::optional<int> max_ctas = {};  ///< the most: above 0; more are faster, and leave fewer
                                     ///< multiprocessors to the program's kernels
  std::string net_name = {};         ///< NCCL's network: "IB", "Socket", a plugin's
  std::optional<bool> split_share =
      {};  ///< subgroups use the buffers and connections of their group
  std::optional<int> traffic_class = {};  ///< of packets, as the network knows it; NCCL 2.26
  std::string name = {};                  ///< in NCCL's log and profiler; NCCL 2.27
  std::optional<bool> collnet = {};       ///< SHARP, where the network has it; NCCL 2.27
  std::optional<int> cta_policy =
      {};                             ///< 0: fast, 1: few blocks, 2: none where possible; NCCL 2.27
  std::optional<int> nvls_ctas = {};  ///< blocks of kernels that use NVLink SHARP; NCCL 2.27
  std::optional<int> channels_per_net_peer = {};  ///< channels for each rank that the network
                                                  ///< reaches: a power of 2; NCCL 2.28
  std::optional<bool> nvlink_centric = {};        ///< prefers NVLink to the network; NCCL 2.28
  std::optional<bool> shrink_share = {};     ///< groups of shrink() use the buffers and connections
                                             ///< of the one before; NCCL 2.27
  std::optional<int> graph_usage_mode = {};  ///< 0: no graphs have calls, 1: one graph at a time
                                             ///< has all of them, 2: any mixture; NCCL 2.29
  std::optional<int> max_p2p_peers = {};  ///< how many ranks a rank has messages with at a time, at
                                          ///< most; NCCL 2.30
  std::optional<bool> graph_stream_ordering =
      {};  ///< NCCL orders its kernels in graphs; false takes graph_usage_mode 0 or 1; NCCL 2.30

  /// How many ranks connect through one NCCL id: above 0, the same on all ranks. Default: all up to
  /// 256 ranks, else 128, as a single id would be slow.
  std::optional<int> ranks_per_id = {};
};

/// How init_process_group() creates a ProcessGroup; the names of
/// torch.distributed.init_process_group.
struct Options {
  /// The library that moves the data:
  ///   cpu    host memory: through memory that ranks of one host share, else over TCP. "gloo" means
  ///          the same
  ///   mpi    host memory and the memory of NVIDIA GPUs; mpirun, or ddprun with --mpi, must have
  ///          started the processes
  ///   nccl   the memory of NVIDIA GPUs through NCCL, and host memory as cpu does
  /// Over TCP, ranks reach this one by the interface towards the store, or by the one that the
  /// variable GLOO_SOCKET_IFNAME names. NCCL has variables of its own.
  /// Empty: nccl if the driver of NVIDIA's GPUs and NCCL are installed (and CUDA_VISIBLE_DEVICES
  /// does not hide every GPU), else cpu. The result must be the same on all ranks.
  std::string backend = {};

  /// The longest time that joining may take and, until set_timeout(), each call. Above 0. Default:
  /// 10 minutes with nccl, 30 with the others, as in torch.distributed.
  std::optional<std::chrono::milliseconds> timeout = {};

  /// With backend nccl: the GPU of this process's buffers, by CUDA's number, such as
  /// ddp::local_device(). The ranks then connect through NCCL at once, as those of subgroups do.
  /// Default: the GPU of the buffers in a group's first call with buffers on a device, which
  /// connects the ranks.
  std::optional<int> device = {};

  /// Settings for backend nccl, also of subgroups.
  NcclOptions nccl = {};

  /// How the ranks find each other:
  ///   env://             as the launcher says: ddprun, torchrun, mpirun (Open MPI, hydra), srun
  ///   tcp://HOST:PORT    through a store that rank 0 serves on HOST at PORT
  ///   file:///PATH       through a file that all ranks can open and no earlier run has used
  ///                      (FileStore)
  /// "?rank=R&world_size=N" may follow.
  std::string init_method = "env://";

  /// A store to use instead of the one of init_method. It may serve other groups, too.
  std::shared_ptr<Store> store = nullptr;

  /// This process's rank and the number of ranks: both or neither. Default: those of init_method,
  /// else the launcher's.
  std::optional<int> rank = {};
  std::optional<int> world_size = {};

  /// By rank, the number by which messages name it: for some ranks of a job, which meet in `store`
  /// as a group of their own. Default: the rank itself.
  std::vector<int> names = {};
};

}  // namespace ddp
