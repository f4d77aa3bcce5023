// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "collectives/training/checkpoint_header.h"

namespace ddp::internal {

/// The checksum of a checkpoint's file: of the header (with zeros for the checksum), then of the
/// elements. XXH3 with 64 bits, or FNV-1a in the first format. Detects accidental changes, not
/// deliberate ones.
class CheckpointSum {
 public:
  /// Begins with the header.
  explicit CheckpointSum(const CheckpointHeader& header);
  CheckpointSum(const CheckpointSum&) = delete;
  CheckpointSum& operator=(const CheckpointSum&) = delete;
  ~CheckpointSum();

  void add(std::string_view bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp::internal
