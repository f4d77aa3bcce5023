// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <random>
#include <vector>

#include "collectives/training/low_rank.h"
#include "ddp/communication_hooks.h"

namespace ddp::internal {

struct GroupMember;

/// The state that power_sgd() keeps between passes. In a pass, for a gradient plus the error of the
/// last one (m), and q of the last pass: p = average of m * q, orthonormalized; q = average of
/// transposed m * p; the average is p * transposed q. Two calls for all gradients of a bucket.
class PowerSgd {
 public:
  PowerSgd(GroupMember& group, PowerSgdOptions options);
  PowerSgd(const PowerSgd&) = delete;
  PowerSgd& operator=(const PowerSgd&) = delete;

  BegunAverage begin(const GradientBucket& bucket);

 private:
  /// The state of a compressed parameter.
  struct State {
    explicit State(std::size_t parameter)
        : chance(static_cast<std::mt19937::result_type>(parameter)) {}
    std::vector<float> error;  ///< what the last average left out of this rank's gradient
    std::vector<float> q;
    std::mt19937 chance;  ///< the same on all ranks
  };

  /// A gradient that is being averaged.
  struct Gradient {
    Matrix matrix;
    Matrix p;                ///< or the gradient's copy, if it is averaged exactly
    Matrix q;                ///< none if it is averaged exactly
    State* state = nullptr;  ///< the same
  };

  struct Average;

  Gradient prepare(const GradientBucket::Part& part);
  State& state_of(std::size_t parameter, const Matrix& matrix);
  void finish(Average& average);

  GroupMember& group_;
  const PowerSgdOptions options_;
  std::map<std::size_t, std::size_t> averages_;  ///< how many there were, by parameter
  std::map<std::size_t, State> states_;          ///< by parameter
};

}  // namespace ddp::internal
