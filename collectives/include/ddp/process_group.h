// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <ranges>
#include <span>

#include "ddp/error.h"
#include "ddp/export.h"
#include "ddp/types.h"

namespace ddp {

/// How a ProcessGroup behaves.
struct Options {
  /// How long one step of a call, joining included, waits for another rank. More than 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
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
  /// Joins the group a launcher describes by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and
  /// waits until every rank has. The store at that address is the launcher's when
  /// TORCHELASTIC_USE_AGENT_STORE is "True", else rank 0 serves it. A process may join several
  /// times, with every rank in the same order; each group is separate.
  /// Errors: usage (a variable is missing or wrong), unreachable, timed_out (names the ranks that
  /// did not come), peer_lost (a rank ended after it had come).
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

}  // namespace ddp
