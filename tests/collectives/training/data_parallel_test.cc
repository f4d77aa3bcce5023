// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel in host memory; in test_device, in that of GPUs.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/training/model.h"

using namespace ddprun::tests;
using namespace ddp_tests;
using ddp::Buffer;
using ddp::DataType;
using ddp::DistributedDataParallel;
using ddp::ProcessGroup;

namespace {

Order forth(std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

void check_buckets(const DistributedDataParallel& model) {
  Order seen;
  for (const Order& bucket : model.buckets()) {
    const char* end = nullptr;
    for (const std::size_t p : bucket) {
      const Buffer buffer = model.gradient(p);
      check(buffer.type == model.gradient(bucket.front()).type, "a bucket of two types");
      check(end == nullptr || buffer.data == end, "a gradient that is not next to the one before");
      end = static_cast<const char*>(buffer.data) +
            buffer.count * (buffer.type == DataType::float64 ? 8 : 4);
      seen.push_back(p);
    }
  }
  std::sort(seen.begin(), seen.end());
  check(seen == forth(model.size()), "each parameter is in one bucket");
}

/// Random models, buckets and orders of readiness; the first two are the same on all ranks.
void train_random(ProcessGroup& group, unsigned seed) {
  std::mt19937 shared(seed);
  std::mt19937 own(seed + 1000 * static_cast<unsigned>(group.rank()) + 1);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{500}, std::size_t{20'000}, std::size_t{25} << 20}) {
    std::vector<std::size_t> counts(1 + shared() % 40);
    for (std::size_t& count : counts) count = shared() % 5 == 0 ? shared() % 9000 : shared() % 40;
    const Model made(counts, group.rank(), 1 + shared() % 4);
    DistributedDataParallel model(group, made.parameters,
                                  placed({.first_bucket_bytes = bytes, .bucket_bytes = 2 * bytes}));
    for (const Values& parameter : read(made.parameters)) {
      for (const double element : parameter) {
        check(element == 1, "a parameter that is not rank 0's");
      }
    }
    check_buckets(model);
    if (bytes == 1) check(model.buckets().size() >= counts.size() / 2, "buckets of one parameter");
    std::vector<void*> places;
    for (std::size_t p = 0; p < model.size(); ++p) places.push_back(model.gradient(p).data);
    Order order = forth(model.size());
    for (std::size_t pass = 0; pass < 4; ++pass) {
      std::shuffle(order.begin(), order.end(), own);
      backward(model, group.rank(), pass, order);
      model.finish();
      check_average(model, group.size(), pass);
    }
    for (std::size_t p = 0; p < model.size(); ++p) {
      check(model.gradient(p).data == places[p], "a gradient that moved");
    }
  }
}

}  // namespace

TEST_CASE("gradients are averaged for any buckets and any order of readiness", "[gpu][mpi]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const auto by_chance = [](ProcessGroup& group, unsigned seed) { train_random(group, seed); };
  check_training(size, by_chance, static_cast<unsigned>(size));
  if (is_over_mpi()) return;  // MPI's ranks never sleep, so others get little processor time
  const unsigned seed = std::random_device{}() % 1'000'000;
  INFO("seed " << seed);
  check_training(size, by_chance, seed);
}

TEST_CASE("the group of a model may be moved", "[gpu][mpi]") {
  check_training(2, [](ProcessGroup& group) {
    const Model made({3, 2}, group.rank());
    auto model = std::make_unique<DistributedDataParallel>(group, made.parameters, placed());
    const ProcessGroup moved = std::move(group);
    for (std::size_t pass = 0; pass < 2; ++pass) {
      backward(*model, moved.rank(), pass, {1, 0});
      model->finish();
      check_average(*model, moved.size(), pass);
    }
    check_refused("parameter 2 of a model that has 2", [&] { model->gradient(2); });
    model.reset();  // before its group
  });
}

TEST_CASE("after the first pass buckets are begun in the order of rank 0", "[gpu][mpi]") {
  check_training(3, [](ProcessGroup& group) {
    const Model made({4, 4, 4, 4}, group.rank());
    DistributedDataParallel model(group, made.parameters,
                                  placed({.first_bucket_bytes = 1, .bucket_bytes = 1}));
    const std::vector<Order> reverse = {{3}, {2}, {1}, {0}};
    check(model.buckets() == reverse, "the first order is the reverse one");
    const std::vector<Order> ready = {{2, 0, 3, 1}, {0, 1, 2, 3}, {1, 3, 0, 2}};
    for (std::size_t pass = 0; pass < 3; ++pass) {
      const auto shift = static_cast<std::size_t>(group.rank()) + pass;
      backward(model, group.rank(), pass, ready[shift % ready.size()]);
      model.finish();
      check_average(model, group.size(), pass);
      const std::vector<Order> learned = {{2}, {0}, {3}, {1}};
      check(model.buckets() == learned, "the order of rank 0's first pass");
    }
  });
}

TEST_CASE("gradients may have another type than parameters, and a pass is measured", "[gpu]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_training(size, [](ProcessGroup& group) {
    const Model made({10, 20}, group.rank());
    DistributedDataParallel model(group, made.parameters,
                                  placed({.gradient_type = DataType::float64}));
    const Buffer second = model.gradient(1);
    check(second.type == DataType::float64 && second.count == 20, "gradients of float64");
    if (!second.on_device) check(model.gradient<double>(1).data() == second.data, "the same");
    backward(model, group.rank(), 0, {1, 0});
    model.finish();
    check_average(model, group.size(), 0);
    const auto& statistics = model.statistics();
    check(statistics.bytes == 240, "the bytes of a pass");
    check(statistics.hidden <= statistics.communication, "more was hidden than there was");
    if (group.size() > 1 && !second.on_device)
      check(statistics.communication.count() > 0, "communication took no time");
  });
}

TEST_CASE("passes without all_reduce add up", "[gpu][mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_training(size, [](ProcessGroup& group) {
    const Model made({300, 2}, group.rank());
    DistributedDataParallel model(group, made.parameters, placed());
    check(model.is_averaging(), "a pass of a new model averages");
    {
      const auto scope = model.no_sync();
      check(!model.is_averaging(), "a pass within no_sync() averages");
      for (std::size_t pass = 0; pass < 2; ++pass) {
        const auto nested = model.no_sync();
        backward(model, group.rank(), 0, {0, 1}, true);
        model.finish();
        check(read(model.gradient(0))[1] ==
                  static_cast<double>(pass + 1) * gradient(group.rank(), 0, 0, 1),
              "a pass without all_reduce changed a gradient");
      }
      model.finish();  // a pass without gradients
      check(!model.was_averaged(0), "averaged within no_sync()");
      check(model.statistics().all_reduces == 0, "a call of a pass without all_reduce");
    }
    check(model.is_averaging(), "a pass after no_sync() averages");
    backward(model, group.rank(), 0, {1, 0}, true);
    model.finish();
    check(model.was_averaged(0) && model.was_averaged(1), "averaged after no_sync()");
    const Values values = read(model.gradient(0));
    for (std::size_t i = 0; i < values.size(); ++i) {
      check(std::abs(values[i] - 3 * average(group.size(), 0, 0, i)) < 1e-4,
            "the average of three passes");
    }
  });
}

TEST_CASE("a parameter that some ranks use is averaged, and one that none uses is kept",
          "[gpu][mpi]") {
  const int ranks = GENERATE(1, 2, 3, 4);
  check_training(ranks, [](ProcessGroup& group) {
    // All ranks use 0, the last rank 1, none 2, and rank 0 uses 3 before a pass that averages.
    const Model made({5, 6, 7, 8}, group.rank());
    DistributedDataParallel model(group, made.parameters, placed({.find_unused_parameters = true}));
    const int size = group.size();
    const bool is_last = group.rank() + 1 == size;
    for (std::size_t pass = 0; pass < 3; ++pass) {
      for (const Buffer& buffer : gradients(model)) fill(buffer, 0);
      fill(model.gradient(2), group.rank());
      if (pass == 2) fill(model.gradient(3), group.rank());  // used before, but by no rank now
      if (pass == 1) {
        const auto scope = model.no_sync();
        if (group.rank() == 0) compute(model, 0, pass, 3);
        model.finish();
      }
      compute(model, group.rank(), pass, 0);
      if (is_last) compute(model, group.rank(), pass, 1);
      model.finish();
      check(model.was_averaged(0) && model.was_averaged(1) && !model.was_averaged(2) &&
                model.was_averaged(3) == (pass == 1),
            "which gradients were averaged");
      const Values all_have = read(model.gradient(0));
      for (std::size_t i = 0; i < all_have.size(); ++i) {
        check(std::abs(all_have[i] - average(size, pass, 0, i)) < 1e-5, "a gradient all have");
      }
      const Values one_has = read(model.gradient(1));
      for (std::size_t i = 0; i < one_has.size(); ++i) {
        const double expected = gradient(size - 1, pass, 1, i) / size;
        check(std::abs(one_has[i] - expected) < 1e-5, "a gradient one rank has");
      }
      check(read(model.gradient(2)) == Values(7, group.rank()), "a gradient no rank has");
      const Values before = read(model.gradient(3));
      for (std::size_t i = 0; i < before.size(); ++i) {
        const double expected = pass == 1   ? gradient(0, pass, 3, i) / size
                                : pass == 2 ? group.rank()
                                            : 0;
        check(std::abs(before[i] - expected) < 1e-5, "a gradient of a pass before");
      }
    }
  });
}

TEST_CASE("a bucket may have 100 MiB") {
  check_training(2, [](ProcessGroup& group) {
  // Sanitizers slow down every look at an element, so they get less. Another gradient is beside it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr std::size_t kBytes = std::size_t{8} << 20;
#else
    constexpr std::size_t kBytes = std::size_t{100} << 20;
#endif
    const Model made({kBytes / sizeof(float), 3}, group.rank());
    DistributedDataParallel model(group, made.parameters, placed({.first_bucket_bytes = 1}));
    backward(model, group.rank(), 0, {1, 0});
    model.finish();
    check_average(model, group.size(), 0);
    check(model.statistics().bytes == kBytes + 12, "the bytes of a pass");
    check(model.statistics().all_reduces == 2, "the calls of a pass");
  });
}
