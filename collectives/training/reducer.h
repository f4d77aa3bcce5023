// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/training/announcements.h"
#include "ddp/communication_hook.h"
#include "ddp/distributed_data_parallel_options.h"
#include "ddp/process_group.h"
#include "ddp/work.h"

namespace ddp::internal {

struct GroupMember;

/// The passes of a DistributedDataParallel: tracks which gradients are ready and begins the
/// all_reduce of complete buckets. Thread: one at a time.
class Reducer {
 public:
  using Options = DistributedDataParallelOptions;
  using Statistics = DistributedDataParallelStatistics;

  /// `gradients` has types and counts; the reducer allocates the memory. The group may be moved.
  Reducer(ProcessGroup& group, std::vector<Buffer> gradients, const Options& options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  ~Reducer();

  std::size_t size() const { return gradients_.size(); }
  const Buffer& gradient(std::size_t parameter) const;
  void gradient_ready(std::size_t parameter);
  void finish();
  bool was_averaged(std::size_t parameter) const;
  void begin_no_sync();
  void end_no_sync() { --no_sync_; }
  const Statistics& statistics() const { return statistics_; }
  std::vector<std::vector<std::size_t>> buckets() const;

  /// With uneven inputs: announces, between passes, that buffers are broadcast now.
  void announce_buffers();

  /// With uneven inputs: makes a pass that others announced, with gradients of zero.
  void pass_of_others();

  /// Refuses a call within a pass.
  void check_between_passes(const std::string& what) const;

  bool is_averaging() const { return no_sync_ == 0; }
  std::optional<Announcements>& announcements() { return announcements_; }
  GroupMember& group() { return group_; }

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Bucket {
    std::vector<GradientBucket::Part> parts;
    std::size_t missing = 0;  ///< gradients that are not ready in this pass
  };

  std::shared_ptr<void> allocate(std::size_t bytes, const Buffer& gradient);
  void lay_out(const Options& options);
  void check_parameter(std::size_t parameter) const;
  void mark_ready(std::size_t parameter);
  void announce_pass();
  void begin_complete();
  void begin(std::span<const GradientBucket::Part> parts);
  BegunAverage begin_all_reduce(const Buffer& memory);
  void begin_rest();
  void begin_used(std::span<const GradientBucket::Part> parts);
  void average();
  void wait();
  void agree_on_order();
  void end_pass();
  std::string missing() const;

  GroupMember& group_;
  const CommunicationHook hook_;
  std::optional<ProcessGroup> own_;  ///< for calls whose order in the group differs between ranks
  std::vector<Buffer> gradients_;
  std::vector<std::shared_ptr<void>> memory_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< of each parameter
  std::vector<std::size_t> order_;      ///< in which buckets are begun

  // The current pass.
  std::vector<std::uint8_t> ready_;
  std::size_t ready_count_ = 0;
  std::size_t begun_ = 0;  ///< the number of buckets in order_ that were begun
  std::vector<std::size_t> completed_;
  std::vector<BegunAverage> averages_;
  std::size_t bytes_ = 0;
  std::optional<Announcements> announcements_;  ///< only with uneven inputs

  std::vector<std::uint8_t> used_;      ///< since gradients were averaged
  std::vector<std::uint8_t> averaged_;  ///< by the last pass
  bool learns_order_;
  int no_sync_ = 0;
  const int exceptions_;
  Statistics statistics_;
};

}  // namespace ddp::internal
