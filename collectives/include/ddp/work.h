// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

namespace internal {
class AsyncCall;
class GroupCalls;
}  // namespace internal

/// An asynchronous call of a ProcessGroup, with the names of torch.distributed.Work. Copies refer
/// to the same call. A default Work is one of a call that has ended. Waiting is optional: if its
/// Work is destroyed, the call continues, and the group's next call throws its failure.
///
/// The buffers of the call must exist until it is completed. Before, the data that it writes is
/// unspecified.
///
/// Thread: any, several at once.
class DDP_EXPORT Work {
 public:
  Work();

  /// Used by this library only. If the call is one of `calls`, its end is noticed there.
  explicit Work(std::shared_ptr<internal::AsyncCall> call,
                std::shared_ptr<internal::GroupCalls> calls = nullptr, std::uint64_t id = 0);

  /// Whether this rank's part has ended, with or without an error. Never blocks.
  bool is_completed() const;

  /// The error of the call; nothing while it runs and if it succeeded. Never blocks.
  std::optional<Error> error() const;

  /// With buffers in host memory or backend mpi: blocks until this rank's part is done. With
  /// backend nccl and buffers on a device: returns at once, and later work of the call's stream
  /// runs after the call. Errors: those of the call.
  void wait() const;

  /// Blocks until this rank's part is done, also with buffers on a device. Errors: those of the
  /// call; timed_out after `timeout`: the call continues, and the group is not broken.
  void wait(std::chrono::milliseconds timeout) const;

  /// Calls `next` when this rank's part is done, also with buffers on a device (a captured call: at
  /// once). `next` runs in a thread of its own or, if none can be made, in this one. The returned
  /// Work ends with `next`. If the call fails, `next` is not called, and the Work has the call's
  /// error; else it has what `next` throws (system, if that is no ddp::Error). Several functions of
  /// one Work are called in any order. The process does not exit before they have ended, unless one
  /// of them calls exit(). Calls in `next` count in the group's call order; use another group.
  Work then(std::function<void()> next) const;

  /// The same, but also calls `next` if the call fails, with its error: nothing if it succeeded.
  /// The returned Work only has what `next` throws.
  Work then(std::function<void(const std::optional<Error>& failure)> next) const;

  /// How long this rank's part took, from the end of the calls before it to its own end, including
  /// the time it waited for other ranks. Returns nothing before its end, with nccl on a device, for
  /// a then(), and for a call with nothing to do. Never blocks.
  std::optional<std::chrono::nanoseconds> duration() const;

 private:
  friend std::size_t wait_any(std::span<const Work> works);

  bool completes_until(std::chrono::steady_clock::time_point deadline) const;
  std::optional<Error> follow(
      const std::function<void(const std::optional<Error>& failure)>& next) const;
  bool notice_end() const;

  std::shared_ptr<internal::AsyncCall> call_;
  std::shared_ptr<internal::GroupCalls> calls_;
  std::uint64_t id_ = 0;
};

/// Waits for each, as Work::wait() does, also after one has failed. Errors: the first one's.
DDP_EXPORT void wait_all(std::span<const Work> works);

/// Blocks until this rank's part of one of them is done, with or without an error, also with
/// buffers on a device. Returns its place: of several the first. Errors: usage (there is none).
[[nodiscard]] DDP_EXPORT std::size_t wait_any(std::span<const Work> works);

}  // namespace ddp
