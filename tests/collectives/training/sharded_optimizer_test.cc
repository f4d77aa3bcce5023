// SPDX-License-Identifier: Apache-2.0
#include "ddp/sharded_optimizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ddp/communication_hooks.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::ShardedOptimizer;

namespace {

using Floats = std::vector<float>;

/// Adam (Kingma and Ba, 2015) for some elements.
class Adam {
 public:
  explicit Adam(std::size_t size) : mean_(size), square_(size) {}

  void begin_step() { ++steps_; }

  /// `first` is the place of these elements in the state.
  void update(std::size_t first, std::span<float> parameters, std::span<const float> gradients) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      float& mean = mean_[first + i];
      float& square = square_[first + i];
      mean = 0.9F * mean + 0.1F * gradients[i];
      square = 0.99F * square + 0.01F * gradients[i] * gradients[i];
      const float unbiased = mean / (1 - std::pow(0.9F, steps_));
      const float root = std::sqrt(square / (1 - std::pow(0.99F, steps_)));
      parameters[i] -= 0.05F * unbiased / (root + 1e-6F);
    }
  }

 private:
  Floats mean_;
  Floats square_;
  float steps_ = 0;
};

float gradient_of_part(int rank, std::size_t pass, std::size_t p, std::size_t i) {
  return std::sin(static_cast<float>(1 + i + 5 * p + 3 * pass)) * static_cast<float>(rank + 1);
}

Floats average(int size, std::size_t pass, std::size_t p, std::size_t count) {
  Floats all(count);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      all[i] += gradient_of_part(rank, pass, p, i) / static_cast<float>(size);
    }
  }
  return all;
}

/// Two parameters share a bucket. The last has 3 elements: less than one a rank. The first has
/// none.
const std::vector<std::size_t> kParameterSizes = {0, 1000, 37, 6, 3};

std::vector<std::size_t> sizes_by_rank(ProcessGroup& group, const ShardedOptimizer& optimizer) {
  std::vector<std::size_t> all(static_cast<std::size_t>(group.size()));
  const std::size_t own = optimizer.size();
  group.all_gather(std::span(&own, 1), all);
  return all;
}

void train(ProcessGroup& group) {
  std::vector<Floats> parameters;
  std::vector<Floats> plain;
  std::vector<Adam> reference;
  for (const std::size_t count : kParameterSizes) {
    parameters.emplace_back(count, static_cast<float>(group.rank() + 1));
    plain.emplace_back(count, 1.0F);
    reference.emplace_back(count);
  }
  ShardedOptimizer optimizer(group, {parameters.begin(), parameters.end()},
                             {.first_bucket_bytes = 12, .bucket_bytes = 40});
  const std::vector<std::size_t> sizes = sizes_by_rank(group, optimizer);
  check(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) == 1046, "all elements");
  if (group.size() == 4) check(sizes == std::vector<std::size_t>{262, 262, 262, 260}, "shares");
  check(*std::max_element(sizes.begin(), sizes.end()) - sizes.back() <=
            optimizer.model().buckets().size(),
        "shares that differ by more than an element of each bucket");
  Adam adam(optimizer.size());
  for (std::size_t pass = 0; pass < 4; ++pass) {
    auto& model = optimizer.model();
    for (std::size_t p = model.size(); p-- > 0;) {
      const auto all = model.gradient<float>(p);
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = gradient_of_part(group.rank(), pass, p, i);
      model.gradient_ready(p);
    }
    model.finish();
    adam.begin_step();
    std::size_t updated = 0;
    optimizer.step([&](const ShardedOptimizer::Shard& shard) {
      check(shard.first == updated, "the state of a shard");
      updated += shard.parameters.count;
      adam.update(shard.first, {static_cast<float*>(shard.parameters.data), shard.parameters.count},
                  {static_cast<const float*>(shard.gradients.data), shard.gradients.count});
    });
    check(updated == optimizer.size(), "all of this rank's elements");
    for (std::size_t p = 0; p < kParameterSizes.size(); ++p) {
      reference[p].begin_step();
      reference[p].update(0, plain[p], average(group.size(), pass, p, kParameterSizes[p]));
      for (std::size_t i = 0; i < kParameterSizes[p]; ++i) {
        check(std::abs(parameters[p][i] - plain[p][i]) < 1e-4, "a parameter");
      }
    }
  }
}

}  // namespace

TEST_CASE("an optimizer whose state is sharded over the ranks trains like a whole one") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) { train(group); });
}

TEST_CASE("a sharded optimizer refuses what it cannot shard") {
  check_ranks(2, [](ProcessGroup& group) {
    Floats floats(3);
    std::vector<double> doubles(3);
    const auto refuses = [&](const std::vector<ddp::Buffer>& parameters,
                             const ddp::DistributedDataParallelOptions& options) {
      refused([&] { ShardedOptimizer(group, parameters, options); });
    };
    refuses({floats}, {.hook = ddp::fp16_compress(group)});
    refuses({floats}, {.find_unused_parameters = true});
    refuses({floats}, {.uneven_inputs = true});
    refuses({floats, doubles}, {.gradient_type = ddp::DataType::float64});
    refuses({ddp::DeviceSpan<float>{floats.data(), 3}}, {});

    ShardedOptimizer optimizer(group, {floats});
    const auto scope = optimizer.model().no_sync();
    optimizer.model().gradient_ready(0);
    optimizer.model().finish();
    refused([&] { optimizer.step([](const auto& /*shard*/) {}); });
  });
}
