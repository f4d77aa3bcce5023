// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>

#include "ddp/error.h"
#include "ddp/export.h"
#include "ddp/store.h"
#include "ddp/types.h"

namespace ddp {

/// How a ProcessGroup begins and behaves; the names of torch.distributed.init_process_group.
struct Options {
  /// How long one step of a call, joining included, waits for another rank. More than 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  /// Where the ranks meet.
  ///   env://             where the launcher says: ddprun, torchrun, mpirun (Open MPI, hydra), srun
  ///   tcp://HOST:PORT    at a store that rank 0, on HOST, serves at PORT
  ///   file:///PATH       in a file that all ranks can open, and no earlier run has used
  ///   (FileStore)
  /// "?rank=R&world_size=N" may follow.
  std::string init_method = "env://";

  /// A store to meet in instead. It may be used for more than this group.
  std::shared_ptr<Store> store = nullptr;

  /// Which of how many this process is: both or none. None: as init_method says, else the launcher.
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

/// The workers of a job, each a process with a rank from 0 to size() - 1, that compute together.
///
/// Every rank makes the same calls in the same order, with the same type, count, operation and
/// root; each call blocks until every rank has made it and this rank's part is done. A group of one
/// rank uses no network.
///
/// Errors are thrown as ddp::Error. After the first that is not of kind `usage` the group is
/// broken for good: every later call throws that same error, and the contents of the buffer of the
/// failed call are unspecified. The first rank to fail tells the others through the store, so that
/// all of them name the same cause. Ranks compare their calls before any large data moves, so a
/// call that differs on one of them is an error that names both, never a wrong result or a hang.
/// A rank whose process dies is seen at once, in every call and while the ranks connect.
///
/// Thread: any, one call at a time.
class DDP_EXPORT ProcessGroup {
 public:
  /// Joins the group that `options` describe, and waits until every rank has. A process may join
  /// several times, with every rank in the same order; each group is separate.
  ///
  /// env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which ddprun and torchrun set; the
  /// store there is the launcher's when TORCHELASTIC_USE_AGENT_STORE is "True", else rank 0 serves
  /// it. Other launchers say their own variables: OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and
  /// _SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS. They name no store. So without MASTER_ADDR rank
  /// 0 serves it on this host if all ranks run here, and on the first node under srun; without
  /// MASTER_PORT at a port made of the job's name. For more nodes under mpirun set MASTER_ADDR.
  ///
  /// Errors: usage (an option or a variable is missing or wrong), unreachable, timed_out (names the
  /// ranks that did not come), peer_lost (a rank ended after it had come).
  static ProcessGroup from_env(const Options& options = {});

  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;

  /// Leaves: waits, at most the timeout, until every rank is done with its last call. While an
  /// exception is on its way, or after a failure, it waits for nobody and the others' next call
  /// fails.
  ~ProcessGroup();

  int rank() const noexcept;
  int size() const noexcept;

  /// Overwrites `data` (a std::vector, std::array, std::span, ...) on every rank with what `root`
  /// has.
  template <Elements R>
  void broadcast(R&& data, int root = 0) {
    broadcast(buffer_of(data), root);
  }

  /// Overwrites `data` on every rank with the element-wise combination of all ranks' data. Every
  /// rank ends with the same bits.
  template <Elements R>
  void all_reduce(R&& data, ReduceOp op = ReduceOp::sum) {
    all_reduce(buffer_of(data), op);
  }

  /// Returns once every rank has called it.
  void barrier();

  /// The same two for callers that know the element type only at run time.
  void broadcast(Buffer buffer, int root);
  void all_reduce(Buffer buffer, ReduceOp op);

 private:
  struct Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);

  template <Elements R>
  static Buffer buffer_of(R& data) {
    const std::span elements(data);
    return {elements.data(), elements.size(), data_type<std::ranges::range_value_t<R>>()};
  }

  std::unique_ptr<Impl> impl_;
};

/// Joins a group: ProcessGroup::from_env under the name that PyTorch gives it.
inline ProcessGroup init_process_group(const Options& options = {}) {
  return ProcessGroup::from_env(options);
}

}  // namespace ddp
