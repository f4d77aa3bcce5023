// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/power_sgd.h"

#include <algorithm>
#include <memory>
#include <ranges>
#include <string>
#include <utility>

#include "collectives/group/group_access.h"
#include "collectives/group/group_member.h"
#include "collectives/training/refuse_hook.h"

namespace ddp::internal {
namespace {

/// Whether twice (rows + columns) * rank is less than rows * columns.
bool is_worth_it(std::size_t rows, std::size_t columns, std::size_t rank) {
  const std::size_t twice = 2 * (rows + columns);
  return rank < (rows * columns + twice - 1) / twice;
}

}  // namespace

/// A bucket under way, and the memory of its calls.
struct PowerSgd::Average {
  std::vector<Gradient> gradients;
  std::vector<float> first;   ///< every p
  std::vector<float> second;  ///< every q

  /// Gives the gradients' matrices their places.
  void allocate(std::size_t rank) {
    std::size_t p = 0;
    std::size_t q = 0;
    for (const Gradient& gradient : gradients) {
      p += size_of_p(gradient, rank);
      q += size_of_q(gradient, rank);
    }
    first.resize(p);
    second.resize(q);
    for (Gradient& gradient : std::views::reverse(gradients)) {
      p -= size_of_p(gradient, rank);
      q -= size_of_q(gradient, rank);
      const Matrix& matrix = gradient.matrix;
      gradient.p = {std::span(first).subspan(p, size_of_p(gradient, rank)), matrix.rows()};
      gradient.q = {std::span(second).subspan(q, size_of_q(gradient, rank)), matrix.columns};
    }
  }

  static std::size_t size_of_p(const Gradient& gradient, std::size_t rank) {
    return gradient.state ? gradient.matrix.rows() * rank : gradient.matrix.elements.size();
  }
  static std::size_t size_of_q(const Gradient& gradient, std::size_t rank) {
    return gradient.state ? gradient.matrix.columns * rank : 0;
  }
};

PowerSgd::PowerSgd(GroupMember& group, PowerSgdOptions options)
    : group_(group), options_(std::move(options)) {
  if (options_.matrix_approximation_rank == 0) {
    refuse_hook(group_, "power_sgd with matrix_approximation_rank 0: at least 1 is needed");
  }
}

BegunAverage PowerSgd::begin(const GradientBucket& bucket) {
  check_on_host(group_, bucket, "power_sgd");
  const auto begin_average = [&](const Buffer& memory) {
    return group_.begin(group_.make.all_reduce(memory, memory, ReduceOp::avg));
  };
  if (bucket.memory.type != DataType::float32) return {begin_average(bucket.memory)};
  const auto average = std::make_shared<Average>();
  for (const auto& part : bucket.parts) average->gradients.push_back(prepare(part));
  average->allocate(options_.matrix_approximation_rank);
  for (const auto& [matrix, p, q, state] : average->gradients) {
    if (state) {
      multiply(matrix, {state->q, matrix.columns}, p);
    } else {
      std::ranges::copy(matrix.elements, p.elements.begin());
    }
  }
  return {begin_average(average->first), [this, average] { finish(*average); }};
}

PowerSgd::Gradient PowerSgd::prepare(const GradientBucket::Part& part) {
  const auto [parameter, buffer] = part;
  Gradient gradient;
  gradient.matrix = {{static_cast<float*>(buffer.data), buffer.count}, 1};
  const std::size_t rows = parameter < options_.rows.size() ? options_.rows[parameter] : 0;
  if (rows < 2) return gradient;
  if (buffer.count % rows != 0) {
    refuse_hook(group_, "power_sgd of parameter " + std::to_string(parameter) + " as " +
                            std::to_string(rows) + " rows: it has " + std::to_string(buffer.count) +
                            " elements");
  }
  const std::size_t columns = buffer.count / rows;
  if (!is_worth_it(rows, columns, options_.matrix_approximation_rank)) return gradient;
  if (averages_[parameter]++ < options_.start_iter) return gradient;
  gradient.matrix.columns = columns;
  gradient.state = &state_of(parameter, gradient.matrix);
  State& state = *gradient.state;
  for (std::size_t i = 0; i < buffer.count; ++i) gradient.matrix.elements[i] += state.error[i];
  orthonormalize({state.q, columns}, state.chance);
  return gradient;
}

PowerSgd::State& PowerSgd::state_of(std::size_t parameter, const Matrix& matrix) {
  const auto [at, is_new] = states_.try_emplace(parameter, parameter);
  State& state = at->second;
  if (!is_new) return state;
  state.error.resize(matrix.elements.size());
  state.q.resize(matrix.columns * options_.matrix_approximation_rank);
  fill_by_chance(state.q, state.chance);
  return state;
}

void PowerSgd::finish(Average& average) {
  for (const auto& [matrix, p, q, state] : average.gradients) {
    if (!state) {
      std::ranges::copy(p.elements, matrix.elements.begin());
      continue;
    }
    orthonormalize(p);
    multiply_transposed(matrix, p, q);
  }
  if (average.second.empty()) return;
  const Buffer second(average.second);
  group_.run(group_.make.all_reduce(second, second, ReduceOp::avg));
  for (const auto& [matrix, p, q, state] : average.gradients) {
    if (!state) continue;
    approximate(matrix, p, q, state->error);
    std::ranges::copy(q.elements, state->q.begin());
  }
}

}  // namespace ddp::internal

namespace ddp {

CommunicationHook power_sgd(ProcessGroup& group, PowerSgdOptions options) {
  using internal::PowerSgd;
  const auto state =
      std::make_shared<PowerSgd>(internal::GroupAccess::member(group), std::move(options));
  return [state](const GradientBucket& bucket) { return state->begin(bucket); };
}

}  // namespace ddp
