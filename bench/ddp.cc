// SPDX-License-Identifier: Apache-2.0
// Measures how much of the communication of gradients is hidden behind the backward pass: averaged
// at its end, one parameter at a time, and in the buckets of DistributedDataParallel.
//   build/bin/bench_ddp [RANKS [MIB [ROUNDS [BACKEND]]]]
// RANKS processes on this host (2), MIB of float32 gradients in 64 parameters (64), ROUNDS of each
// (9). Over nccl the gradients are on GPUs. Methods take turns; figures are medians of rank 0.
//
// The backward pass is a model. It is as long as the time that communication at its end adds to it,
// or twice as long, divided among the parameters by size:
//   wait   the processor is free, as if a GPU computed
//   spin   it is busy, as if this thread computed. Communication over TCP also needs it. If there
//          are no more processors than ranks, communication is not hidden, but slows computation,
//          which this model does not show
// "hidden" is the share of the time that communication adds at the end, but not to this step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/ddp_memory.h"
#include "bench/harness.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/spawn.h"

namespace {

using ddprun::bench::Memory;
using std::chrono::duration;
using std::chrono::steady_clock;
using Seconds = duration<double>;

struct Settings {
  int ranks = 2;
  std::size_t bytes = std::size_t{64} << 20;
  int rounds = 9;
  std::string backend;
};

enum class Kind { wait, spin };

/// Spends the time that a parameter's part of the backward pass takes, until `end`.
void compute(Kind kind, steady_clock::time_point end) {
  if (kind == Kind::wait) return std::this_thread::sleep_until(end);
  while (steady_clock::now() < end) continue;
}

Memory make_host_memory() {
  const auto allocate = [](std::size_t bytes) { return std::make_shared<std::byte[]>(bytes); };
  return {.allocate = allocate, .settle = [] {}};
}

/// Sizes as in layers: every fourth parameter is large.
std::vector<std::size_t> make_sizes(std::size_t bytes) {
  constexpr std::size_t kLayers = 16;
  const std::size_t unit = bytes / sizeof(float) / kLayers / 8;
  std::vector<std::size_t> sizes;
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    for (const std::size_t units : {1, 1, 1, 5}) sizes.push_back(units * unit);
  }
  return sizes;
}

/// A way to average: called when a gradient is ready, and at the end.
struct Method {
  std::string name;
  std::function<void(std::size_t parameter)> ready;
  std::function<void()> finish;
};

class Bench {
 public:
  Bench(ddp::ProcessGroup& group, const Settings& settings)
      : group_(group),
        settings_(settings),
        memory_(group.backend() == "nccl" ? ddprun::bench::make_device_memory()
                                          : make_host_memory()) {
    for (const std::size_t size : make_sizes(settings.bytes)) {
      parameters_.push_back(make_buffer(size));
      gradients_.push_back(make_buffer(size));
      elements_ += size;
    }
    methods_.push_back(
        {"at the end", [](std::size_t) {}, [this] { average(0, gradients_.size()); }});
    methods_.push_back({"per parameter", [this](std::size_t p) { begin(p); }, [this] { wait(); }});
    add_buckets(5);
    add_buckets(25);
  }

  void run() {
    for (const Method& method : methods_)
      step(method, Kind::wait, Seconds(0));  // warm-up; the model learns the order of buckets
    print_once("%d ranks, %s, %.0f MiB of gradients\n\n", group_.size(), group_.backend().c_str(),
               static_cast<double>(elements_) * sizeof(float) / 1048576);
    print_once("%-10s %-14s %10s %13s %8s\n", "backward", "averaged", "it takes", "step adds",
               "hidden");
    for (const Kind kind : {Kind::wait, Kind::spin}) {
      for (const int times : {1, 2}) compare(kind, times);
    }
  }

 private:
  template <class... Args>
  void print_once(const char* format, Args... args) const {
    if (group_.rank() == 0) std::printf(format, args...);
  }

  ddp::Buffer make_buffer(std::size_t count) {
    allocated_.push_back(memory_.allocate(count * sizeof(float)));
    ddp::Buffer buffer(allocated_.back().get(), count, ddp::DataType::float32, memory_.stream);
    buffer.on_device = memory_.on_device;
    return buffer;
  }

  /// Empty for host memory: the library then uses its own, which is shared with backend cpu.
  std::function<std::shared_ptr<void>(std::size_t)> allocator_of_buckets() const {
    if (!memory_.on_device) return {};
    return memory_.allocate;
  }

  void add_buckets(std::size_t mib) {
    models_.push_back(std::make_unique<ddp::DistributedDataParallel>(
        group_, parameters_,
        ddp::DistributedDataParallelOptions{.bucket_bytes = mib << 20,
                                            .allocate = allocator_of_buckets()}));
    ddp::DistributedDataParallel& model = *models_.back();
    methods_.push_back({"buckets " + std::to_string(mib) + " MiB",
                        [&model](std::size_t p) { model.gradient_ready(p); },
                        [&model] { model.finish(); }});
  }

  void begin(std::size_t parameter) {
    works_.push_back(group_.iall_reduce(gradients_[parameter], ddp::ReduceOp::avg));
  }
  void wait() {
    for (const ddp::Work& work : works_) work.wait();
    works_.clear();
  }
  void average(std::size_t first, std::size_t end) {
    for (std::size_t p = end; p-- > first;) begin(p);
    wait();
  }

  Seconds step(const Method& method, Kind kind, Seconds backward) {
    group_.barrier();
    const auto began = steady_clock::now();
    std::size_t done = 0;
    for (std::size_t p = parameters_.size(); p-- > 0;) {
      done += parameters_[p].count;
      const double share = static_cast<double>(done) / static_cast<double>(elements_);
      compute(kind, began + std::chrono::duration_cast<steady_clock::duration>(backward * share));
      method.ready(p);
    }
    method.finish();
    memory_.settle();
    return steady_clock::now() - began;
  }

  void compare(Kind kind, int times) {
    Seconds backward = step(methods_[0], kind, Seconds(0)) * times;
    std::vector<double> backwards;
    std::vector<std::vector<double>> exposed(methods_.size());  // step time minus backward
    for (int round = 0; round < settings_.rounds; ++round) {
      // The communication time of the first method in the rounds so far, the same on all ranks.
      double length = backward.count();
      if (round > 0) length = times * std::max(ddprun::bench::median(exposed[0]), 1e-6);
      group_.broadcast(std::span(&length, 1));
      backward = Seconds(length);
      backwards.push_back(length);
      for (std::size_t w = 0; w < methods_.size(); ++w) {
        exposed[w].push_back((step(methods_[w], kind, backward) - backward).count());
      }
    }
    const std::string name = (kind == Kind::wait ? "wait x" : "spin x") + std::to_string(times);
    for (std::size_t w = 0; w < methods_.size(); ++w) {
      const double median = ddprun::bench::median(exposed[w]);
      print_once("%-10s %-14s %7.1f ms %10.1f ms %6.0f %%\n", name.c_str(),
                 methods_[w].name.c_str(), ddprun::bench::median(backwards) * 1e3, median * 1e3,
                 100 * (1 - median / ddprun::bench::median(exposed[0])));
    }
  }

  ddp::ProcessGroup& group_;
  const Settings settings_;
  const Memory memory_;
  std::vector<std::shared_ptr<void>> allocated_;
  std::vector<ddp::Buffer> parameters_;
  std::vector<ddp::Buffer> gradients_;  ///< used by the methods without buckets
  std::size_t elements_ = 0;
  std::vector<std::unique_ptr<ddp::DistributedDataParallel>> models_;
  std::vector<ddp::Work> works_;
  std::vector<Method> methods_;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc > 1) settings.ranks = std::max(std::atoi(argv[1]), 1);
  if (argc > 2) settings.bytes = static_cast<std::size_t>(std::max(std::atoi(argv[2]), 1)) << 20;
  if (argc > 3) settings.rounds = std::max(std::atoi(argv[3]), 1);
  if (argc > 4) settings.backend = argv[4];
  try {
    ddp::spawn(settings.ranks, [&](int) {
      auto group = ddp::init_process_group({.backend = settings.backend});
      Bench(group, settings).run();
    });
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "bench_ddp: %s\n", error.what());
    return 1;
  }
  return 0;
}
