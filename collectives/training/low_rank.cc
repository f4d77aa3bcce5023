// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace ddp::internal {
namespace {

using Vector = std::span<const float>;

/// Uses several sums, so that it can be vectorized and rounds less.
float dot(Vector a, Vector b) {
  constexpr std::size_t kSums = 16;
  std::array<float, kSums> sums{};
  std::size_t at = 0;
  for (; at + kSums <= a.size(); at += kSums) {
    for (std::size_t i = 0; i < kSums; ++i) sums[i] += a[at + i] * b[at + i];
  }
  for (; at < a.size(); ++at) sums[0] += a[at] * b[at];
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

void add_multiple(std::span<float> to, float factor, Vector of) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * of[i];
}

void scale(std::span<float> vector, float factor) {
  for (float& each : vector) each *= factor;
}

/// Removes from a row its components along the rows before it, and makes its length 1. If only
/// rounding errors are left, sets it to 0 and returns false.
bool normalize(const Matrix& a, std::size_t row) {
  constexpr float kRounding = 1e-5F;
  const auto vector = a.row(row);
  const float before = std::sqrt(dot(vector, vector));
  for (std::size_t i = 0; i < row; ++i) add_multiple(vector, -dot(vector, a.row(i)), a.row(i));
  const float after = std::sqrt(dot(vector, vector));
  const bool independent = after > kRounding * before;
  scale(vector, independent ? 1 / after : 0);
  return independent;
}

}  // namespace

void multiply(const Matrix& matrix, const Matrix& q, const Matrix& p) {
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t r = 0; r < q.rows(); ++r) p.row(r)[i] = dot(matrix.row(i), q.row(r));
  }
}

void multiply_transposed(const Matrix& matrix, const Matrix& p, const Matrix& q) {
  std::ranges::fill(q.elements, 0.0F);
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t r = 0; r < q.rows(); ++r) add_multiple(q.row(r), p.row(r)[i], matrix.row(i));
  }
}

void approximate(const Matrix& matrix, const Matrix& p, const Matrix& q, std::span<float> rest) {
  std::ranges::copy(matrix.elements, rest.begin());
  std::ranges::fill(matrix.elements, 0.0F);
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    const auto row = matrix.row(i);
    for (std::size_t r = 0; r < q.rows(); ++r) add_multiple(row, p.row(r)[i], q.row(r));
    add_multiple(rest.subspan(i * matrix.columns, matrix.columns), -1, row);
  }
}

void orthonormalize(const Matrix& a) {
  for (std::size_t row = 0; row < a.rows(); ++row) normalize(a, row);
}

void orthonormalize(const Matrix& a, std::mt19937& chance) {
  for (std::size_t row = 0; row < a.rows(); ++row) {
    if (normalize(a, row)) continue;
    fill_by_chance(a.row(row), chance);
    normalize(a, row);
  }
}

void fill_by_chance(std::span<float> elements, std::mt19937& chance) {
  const auto draw = [&] {
    return static_cast<float>(static_cast<double>(chance()) / 2147483647.5 - 1);
  };
  std::ranges::generate(elements, draw);
}

}  // namespace ddp::internal
