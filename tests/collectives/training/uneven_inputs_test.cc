// SPDX-License-Identifier: Apache-2.0
// Buffers, the first broadcast, and ranks with different numbers of passes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "ddp/distributed_data_parallel.h"
#include "ddp/trace.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
using ddp::DistributedDataParallel;
using ddp::ProcessGroup;

namespace {

using Floats = std::vector<float>;
using Options = ddp::DistributedDataParallelOptions;

std::size_t broadcasts_so_far(const std::string& path) {
  ddp::write_trace(path);
  std::ifstream file(path);
  const auto trace = nlohmann::json::parse(file);
  return static_cast<std::size_t>(
      std::count_if(trace["calls"].begin(), trace["calls"].end(),
                    [](const auto& call) { return call["operation"] == "broadcast"; }));
}

/// The number of passes that a rank makes.
std::size_t passes_of(int rank, const std::string& how) {
  if (how == "later ranks more") return static_cast<std::size_t>(rank) * 2;
  if (how == "rank 0 more") return rank == 0 ? 3 : 1;
  return how == "the same" ? 2 : 0;
}

float uneven_gradient(int rank, std::size_t pass, std::size_t i) {
  return static_cast<float>((i + pass) % 5 + 1) * static_cast<float>(rank + 1);
}

/// Trains in one process with the gradients of all ranks.
void train_plainly(Floats& weights, int size, const std::string& how) {
  for (std::size_t pass = 0; pass < 20; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < size; ++rank) {
        if (pass < passes_of(rank, how)) sum += uneven_gradient(rank, pass, i);
      }
      weights[i] -= sum / static_cast<float>(size);
    }
  }
}

/// A model of three parameters in three buckets, which are parts of `weights`.
class Trainer {
 public:
  explicit Trainer(ProcessGroup& group, bool finds_unused = false)
      : group_(group),
        model_(group, parts(),
               Options{.first_bucket_bytes = 1,
                       .bucket_bytes = 1,
                       .find_unused_parameters = finds_unused,
                       .buffers = {steps_},
                       .uneven_inputs = true}) {}

  void make_passes(std::size_t passes) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      model_.broadcast_buffers();
      steps_[0] += 1;
      std::size_t from = weights.size();
      for (std::size_t p = model_.size(); p-- > 0;) {
        const auto all = model_.gradient<float>(p);
        from -= all.size();
        for (std::size_t i = 0; i < all.size(); ++i) {
          all[i] = uneven_gradient(group_.rank(), pass, from + i);
        }
        model_.gradient_ready(p);
      }
      model_.finish();
      for (std::size_t p = 0; p < model_.size(); ++p) {
        for (const float each : model_.gradient<float>(p)) weights[from++] -= each;
      }
    }
    model_.join();
  }

  DistributedDataParallel& model() { return model_; }
  std::int64_t steps() const { return steps_[0]; }

  Floats weights = Floats(10, 1.0F);

 private:
  std::vector<ddp::Buffer> parts() {
    const std::span all(weights);
    return {all.first(3), all.subspan(3, 2), all.subspan(5)};
  }

  ProcessGroup& group_;
  std::vector<std::int64_t> steps_ = {0};
  DistributedDataParallel model_;
};

}  // namespace

TEST_CASE("the first broadcast is one call for any parameters and buffers") {
  const int size = GENERATE(1, 2, 3, 4);
  const Folder folder;
  check_ranks(
      size,
      [](ProcessGroup& group, const std::string& where) {
        const auto own = static_cast<float>(group.rank());
        std::vector<Floats> floats(40, Floats(7, own));
        std::vector<double> doubles(3, own);
        std::vector<std::int64_t> whole = {group.rank()};
        std::vector<std::array<char, 3>> structs(5, {1, 2, static_cast<char>(group.rank())});
        Floats empty;
        std::vector<ddp::Buffer> parameters(floats.begin(), floats.end());
        parameters.emplace_back(doubles);
        parameters.emplace_back(empty);
        const std::string path = where + "/" + std::to_string(group.rank());
        const std::size_t before = broadcasts_so_far(path);
        DistributedDataParallel model(group, parameters, Options{.buffers = {structs, whole}});
        check(broadcasts_so_far(path) - before == 1, "more than one broadcast");
        check(floats[0][0] == 0 && floats[39][6] == 0, "a parameter that is not rank 0's");
        check(doubles[2] == 0 && whole[0] == 0, "state that is not rank 0's");
        check(structs[4] == std::array<char, 3>{1, 2, 0}, "structs that are not rank 0's");
        whole[0] = 5 + group.rank();
        model.broadcast_buffers();
        check(whole[0] == 5, "a buffer that is not rank 0's");
        Floats large(300'000, own);
        const DistributedDataParallel other(group, {floats[0], large, doubles});
        check(broadcasts_so_far(path) - before == 4, "a long parameter goes alone");
        check(large.back() == 0, "a long parameter that is not rank 0's");
      },
      folder.path.string());
}

TEST_CASE("ranks may make different numbers of passes") {
  const int size = GENERATE(1, 2, 3, 4);
  const bool finds_unused = GENERATE(false, true);
  check_ranks(
      size,
      [](ProcessGroup& group, bool finds) {
        for (const std::string how : {"later ranks more", "rank 0 more", "the same", "none"}) {
          Trainer trainer(group, finds);
          Floats wanted = trainer.weights;
          std::int64_t steps = 0;
          for (int epoch = 0; epoch < 2; ++epoch) {
            trainer.make_passes(passes_of(group.rank(), how));
            train_plainly(wanted, group.size(), how);
            std::size_t most = 0;
            for (int r = 0; r < group.size(); ++r) most = std::max(most, passes_of(r, how));
            steps += static_cast<std::int64_t>(most);
            check(trainer.steps() == steps, how + ": the buffers of a rank that made all passes");
            for (std::size_t i = 0; i < wanted.size(); ++i) {
              check(std::abs(trainer.weights[i] - wanted[i]) < 1e-4, how + ": a parameter");
            }
          }
        }
      },
      finds_unused);
}

TEST_CASE("join() is refused within a pass, within no_sync() and without uneven_inputs") {
  check_ranks(2, [](ProcessGroup& group) {
    Floats weights(3);
    DistributedDataParallel even(group, {weights});
    refused([&] { even.join(); });
    Trainer trainer(group);
    {
      const auto scope = trainer.model().no_sync();
      refused([&] { trainer.model().join(); });
    }
    trainer.model().gradient_ready(0);
    refused([&] { trainer.model().join(); });
    refused([&] { trainer.model().broadcast_buffers(); });
    trainer.model().gradient_ready(1);
    trainer.model().gradient_ready(2);
    trainer.model().finish();
    trainer.model().join();
  });
}
