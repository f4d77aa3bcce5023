// SPDX-License-Identifier: Apache-2.0
#include "ddp/communication_hooks.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
using ddp::Buffer;
using ddp::DistributedDataParallel;
using ddp::ProcessGroup;

namespace {

using Floats = std::vector<float>;

/// A gradient with more digits than 16 bits hold.
float gradient_element(int rank, std::size_t pass, std::size_t i) {
  return std::sin(static_cast<float>(1 + i * 3 + pass * 7) * static_cast<float>(rank + 1));
}

/// Writes all gradients of a pass, and averages them.
void make_pass(DistributedDataParallel& model, int rank, std::size_t pass) {
  for (std::size_t p = model.size(); p-- > 0;) {
    const auto all = model.gradient<float>(p);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = gradient_element(rank, pass, i);
    model.gradient_ready(p);
  }
  model.finish();
}

/// The rounded average of rounded gradients.
template <class Small>
float rounded_average(int size, std::size_t pass, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += Small(gradient_element(rank, pass, i));
  return Small(sum / static_cast<float>(size));
}

template <class Small>
void check_compressed(ProcessGroup& group, const ddp::CommunicationHook& hook, float rounding) {
  Floats first(700);
  Floats second(50);
  DistributedDataParallel model(
      group, {first, second},
      ddp::DistributedDataParallelOptions{.first_bucket_bytes = 4, .hook = hook});
  for (std::size_t pass = 0; pass < 3; ++pass) {
    make_pass(model, group.rank(), pass);
    for (const std::size_t p : {0U, 1U}) {
      const auto all = model.gradient<float>(p);
      for (std::size_t i = 0; i < all.size(); ++i) {
        check(Small(all[i]) == all[i], "an average that 16 bits do not hold");
        const float wanted = rounded_average<Small>(group.size(), pass, i);
        check(std::abs(all[i] - wanted) <= rounding * std::abs(wanted), "an average");
      }
    }
    check(model.statistics().all_reduces == 2, "the calls of a pass");
  }
}

/// Gradients of the matrix rank `rank`: sums of products of a number by row and one by column.
float low_rank(std::size_t rank, int of, std::size_t row, std::size_t column) {
  float sum = 0;
  for (std::size_t r = 0; r < rank; ++r) {
    const auto scale = static_cast<float>(of + 1) / static_cast<float>(r + 1);
    sum += scale * std::sin(static_cast<float>((row + 1) * (r + 2))) *
           std::cos(static_cast<float>((column + 2) * (r + 1)));
  }
  return sum;
}

constexpr std::size_t kRows = 24;
constexpr std::size_t kColumns = 36;

/// Averages a matrix and a vector `passes` times. Returns how far the sum of the matrix's averages
/// is from that of exact ones. Checks that all ranks have the same.
double error_of_sum(ProcessGroup& group, std::size_t gradient_rank, std::size_t passes,
                    std::size_t start) {
  Floats matrix(kRows * kColumns);
  Floats vector(5);
  DistributedDataParallel model(
      group, {matrix, vector},
      ddp::DistributedDataParallelOptions{
          .hook = ddp::power_sgd(
              group, {.rows = {kRows}, .matrix_approximation_rank = 2, .start_iter = start})});
  std::vector<double> error(matrix.size());
  double norm = 0;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto all = model.gradient<float>(0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = low_rank(gradient_rank, group.rank(), i / kColumns, i % kColumns);
    }
    for (float& each : model.gradient<float>(1)) each = static_cast<float>(group.rank());
    model.gradient_ready(1);
    model.gradient_ready(0);
    model.finish();
    check(model.gradient<float>(1)[4] == static_cast<float>(group.size() - 1) / 2, "a vector");
    for (std::size_t i = 0; i < all.size(); ++i) {
      double exact = 0;
      for (int of = 0; of < group.size(); ++of) {
        exact += low_rank(gradient_rank, of, i / kColumns, i % kColumns) / group.size();
      }
      error[i] += all[i] - exact;
      if (pass == 0) norm += exact * exact;
    }
  }
  const auto all = model.gradient<float>(0);
  Floats of_rank_0(all.begin(), all.end());
  group.broadcast(of_rank_0);
  check(std::equal(all.begin(), all.end(), of_rank_0.begin()), "an average like that of rank 0");
  return std::sqrt(std::inner_product(error.begin(), error.end(), error.begin(), 0.0) / norm);
}

}  // namespace

TEST_CASE("gradients are sent as 16 bits") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    check_compressed<ddp::float16>(group, ddp::fp16_compress(group), 0x1p-10F);
    check_compressed<ddp::bfloat16>(group, ddp::bf16_compress(group), 0x1p-7F);
    Floats here(2);
    const ddp::DeviceSpan<float> elsewhere{here.data(), 2};
    refused([&] { ddp::fp16_compress(group)({.memory = elsewhere, .parts = {}}); });
    ProcessGroup moved = std::move(group);
    std::vector<double> doubles = {1.0 / 3, 7};
    const auto begun = ddp::fp16_compress(moved)({.memory = doubles, .parts = {}});
    begun.work.wait();
    begun.finish();
    check(doubles[0] == ddp::float16(1.0F / 3), "a gradient of 64 bits");
  });
}

TEST_CASE("a hook of the program averages each bucket, and the averages end in the same order") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    std::vector<std::size_t> ended;
    const auto hook = [&](const ddp::GradientBucket& bucket) -> ddp::BegunAverage {
      const Buffer memory = bucket.memory;
      std::size_t parameter = bucket.parts.front().parameter;
      check(bucket.parts.front().gradient.data == memory.data, "the place of a gradient");
      return {group.iall_reduce(memory), [&ended, &group, memory, parameter] {
                for (float& each : std::span(static_cast<float*>(memory.data), memory.count)) {
                  each /= static_cast<float>(group.size());
                }
                ended.push_back(parameter);
              }};
    };
    Floats first(10);
    Floats second(20);
    DistributedDataParallel model(group, {first, second},
                                  ddp::DistributedDataParallelOptions{
                                      .first_bucket_bytes = 1, .bucket_bytes = 1, .hook = hook});
    make_pass(model, group.rank(), 0);
    check(ended == std::vector<std::size_t>{1, 0}, "the order of buckets");
    float wanted = 0;
    for (int rank = 0; rank < group.size(); ++rank) wanted += gradient_element(rank, 0, 7);
    wanted /= static_cast<float>(group.size());
    check(std::abs(model.gradient<float>(0)[7] - wanted) < 1e-6, "an average");
  });
}

TEST_CASE("a pass does not end without a bucket that its hook refused") {
  check_ranks(2, [](ProcessGroup& group) {
    Floats odd(7);
    DistributedDataParallel model(
        group, {odd},
        ddp::DistributedDataParallelOptions{.hook = ddp::power_sgd(group, {.rows = {2}})});
    refused([&] { model.gradient_ready(0); });
    refused([&] { model.finish(); });
  });
}

TEST_CASE("PowerSGD compresses matrices that become less than half as large, as PyTorch does") {
  check_ranks(2, [](ProcessGroup& group) {
    const auto is_exact = [&](std::size_t rows, std::size_t columns) {
      Floats matrix(rows * columns);
      DistributedDataParallel model(
          group, {matrix},
          ddp::DistributedDataParallelOptions{
              .hook = ddp::power_sgd(group, {.rows = {rows}, .start_iter = 0})});
      make_pass(model, group.rank(), 0);
      double error = 0;
      for (std::size_t i = 0; i < matrix.size(); ++i) {
        const float sum = gradient_element(0, 0, i) + gradient_element(1, 0, i);
        error += std::abs(model.gradient<float>(0)[i] - sum / 2);
      }
      return error < 1e-4;
    };
    check(!is_exact(4, 12), "16 elements instead of 48");
    check(is_exact(4, 4), "8 elements instead of 16");
  });
}

TEST_CASE("PowerSGD finds a gradient of its rank, and adds the rest in later passes") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    check(error_of_sum(group, 9, 2, 2) < 1e-5, "exact before start_iter");
    check(error_of_sum(group, 2, 3, 1) < 1e-4, "of rank 2");
    check(error_of_sum(group, 1, 3, 0) < 1e-4, "of rank 1, which leaves a column of q empty");
    const double one_pass = error_of_sum(group, 9, 1, 0);
    check(one_pass > 0.2, "of rank 9, which rank 2 does not hold");
    check(error_of_sum(group, 9, 60, 0) < 4 * one_pass, "errors add up without feedback");
    refused([&] { ddp::power_sgd(group, {.matrix_approximation_rank = 0}); });
    Floats odd(7);
    const ddp::GradientBucket::Part part{0, odd};
    refused([&] { ddp::power_sgd(group, {.rows = {2}})({.memory = odd, .parts = {&part, 1}}); });
  });
}
