// SPDX-License-Identifier: Apache-2.0
// The collectives of ddp and of other libraries, side by side in the same processes.
//   build/bin/bench_collectives [OPERATION [LARGEST [FACTOR [ROUNDS [RANKS]]]]]
//   mpirun --oversubscribe --bind-to none -n RANKS build/bin/bench_collectives [...]
// The first command compares ddp over cpu, which shares memory on one host, with Gloo, which uses
// TCP. It uses RANKS processes (2), or those that ddprun started; on several hosts set
// GLOO_SOCKET_IFNAME. The second (mpiexec works, too) compares ddp over cpu and ddp over mpi with
// the MPI that it was built with. bench/collectives_peers has Open MPI and MPICH in one run.
// OPERATION is all_reduce (the default), broadcast, reduce, all_gather, reduce_scatter, all_to_all,
// barrier, ping_pong or all. Sizes go from 4 B to LARGEST bytes (67108864), each FACTOR (4) times
// the last. All data is in memory of ProcessGroup::allocate(), unless DDP_BENCH_ALLOCATE=0.
//
// Columns and factors are those of nccl-tests (doc/PERFORMANCE.md there): float32, size is that of
// the whole array, a GB is 1e9 bytes, and a call is out of place (broadcast is always in place).
// Unlike there, the time is that of the slowest rank. For each size, ROUNDS rounds (15) of all
// libraries take turns, each with as many calls as take 10 ms; figures are medians of rounds.
// "ratio" is the time divided by that of the last library. "copy" is algbw if the call was a
// memcpy() of the whole array by every rank at once: the upper bound for an all_reduce of two
// ranks, once its data is in no cache.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/collectives_library.h"
#include "bench/harness.h"
#include "ddp/spawn.h"

namespace ddprun::bench {
namespace {

using Seconds = std::chrono::duration<double>;

#ifdef DDPRUN_BENCH_OTHER_MPI
constexpr bool kIsMpiOfDdp = false;  // this was built with another MPI than ddp
#else
constexpr bool kIsMpiOfDdp = true;
#endif

struct Operation {
  const char* name;
  Collective collective;
  bool has_blocks;               ///< one per rank
  double (*bus_factor)(double);  ///< of the number of ranks
};

double one(double /*ranks*/) {
  return 1;
}
double others_share(double ranks) {
  return (ranks - 1) / ranks;
}
double twice_others_share(double ranks) {
  return 2 * others_share(ranks);
}

constexpr std::array<Operation, 8> kOperations = {{
    {"all_reduce", Collective::all_reduce, false, twice_others_share},
    {"broadcast", Collective::broadcast, false, one},
    {"reduce", Collective::reduce, false, one},
    {"all_gather", Collective::all_gather, true, others_share},
    {"reduce_scatter", Collective::reduce_scatter, true, others_share},
    {"all_to_all", Collective::all_to_all, true, others_share},
    {"barrier", Collective::barrier, false, one},
    {"ping_pong", Collective::ping_pong, false, one},
}};

struct Settings {
  std::string operation = "all_reduce";
  std::size_t largest = std::size_t{64} << 20;
  std::size_t factor = 4;
  int rounds = 15;
  int ranks = 2;
};

/// Elements with exact sums.
float element(int rank, std::size_t at) {
  return static_cast<float>((at + 3 * static_cast<std::size_t>(rank)) % 61);
}

class Table {
 public:
  using Libraries = std::vector<std::unique_ptr<Library>>;

  Table(ddp::ProcessGroup& group, const Settings& settings, const Operation& operation,
        const Libraries& libraries)
      : group_(group),
        settings_(settings),
        operation_(operation),
        libraries_(libraries),
        met_(libraries.size()) {}

  void print() {
    in_ = allocate(memory_[0]);
    out_ = allocate(memory_[1]);
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = element(group_.rank(), i);
    print_head();
    std::size_t last = 0;
    const bool has_size = operation_.collective != Collective::barrier;
    const std::size_t largest = has_size ? settings_.largest : sizeof(float);
    for (std::size_t bytes = sizeof(float); bytes <= largest; bytes *= settings_.factor) {
      const Arrays arrays = arrays_of(bytes);
      if (arrays.count != last) print_row(arrays);
      last = arrays.count;
    }
    print_summary();
  }

 private:
  struct Figures {
    double time = 0;  ///< of a call, in seconds
    std::int64_t wrong = 0;
  };

  template <class... Args>
  void print_once(const char* format, Args... args) const {
    if (group_.rank() == 0) std::printf(format, args...);
  }

  std::size_t largest_array() const {
    return std::max(settings_.largest / sizeof(float), static_cast<std::size_t>(group_.size()));
  }

  std::span<float> allocate(std::shared_ptr<void>& memory) {
    const std::size_t bytes = largest_array() * sizeof(float);
    const char* const wanted = std::getenv("DDP_BENCH_ALLOCATE");
    const bool is_own = wanted != nullptr && *wanted == '0';
    memory = is_own ? std::make_shared<float[]>(largest_array()) : group_.allocate(bytes);
    return {static_cast<float*>(memory.get()), largest_array()};
  }

  /// If there are blocks, each has at least one element.
  Arrays arrays_of(std::size_t bytes) {
    const auto blocks = static_cast<std::size_t>(operation_.has_blocks ? group_.size() : 1);
    const std::size_t count = std::max<std::size_t>(bytes / sizeof(float) / blocks, 1);
    return {in_.data(), out_.data(), count, blocks};
  }

  void print_head() const {
    print_once("# %s, %d ranks\n#\n", operation_.name, group_.size());
    print_once("# %26s", "");
    for (const auto& library : libraries_) print_once("  %-43s", library->name().c_str());
    print_once("\n# %9s %9s %6s", "size", "count", "type");
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      print_once("  %10s %8s %8s %7s %6s", "time", "algbw", "busbw", "#wrong", "ratio");
    }
    print_once("  %8s\n# %9s %9s %6s", "copy", "(B)", "(elem)", "");
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      print_once("  %10s %8s %8s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "", "");
    }
    print_once("  %8s\n", "(GB/s)");
  }

  void print_row(const Arrays& arrays) {
    const std::size_t bytes = arrays.total() * sizeof(float);
    print_once("  %9zu %9zu %6s", bytes, arrays.count, "float");
    const auto figures = measure(arrays);
    const auto& last = figures.back();
    for (std::size_t i = 0; i < figures.size(); ++i) {
      if (figures[i]) print_figures(*figures[i], static_cast<double>(bytes));
      if (figures[i] && last) compare(i, figures[i]->time, last->time);
    }
    if (last) ++compared_;
    print_once("  %8.3f\n", static_cast<double>(bytes) / time_copy(arrays) / 1e9);
    if (group_.rank() == 0) std::fflush(stdout);
  }

  void print_figures(const Figures& figures, double bytes) const {
    const double algorithm = bytes / figures.time / 1e9;
    print_once("  %10.2f %8.3f %8.3f %7lld", figures.time * 1e6, algorithm,
               algorithm * operation_.bus_factor(group_.size()),
               static_cast<long long>(figures.wrong));
  }

  void compare(std::size_t library, double ours, double theirs) {
    print_once(" %6.3f", ours / theirs);
    if (ours <= 1.05 * theirs || ours - theirs <= 1e-6) ++met_[library];
  }

  void print_summary() const {
    const std::string last = libraries_.back()->name();
    if (compared_ == 0) print_once("# %s has no %s\n", last.c_str(), operation_.name);
    for (std::size_t i = 0; compared_ > 0 && i + 1 < libraries_.size(); ++i) {
      print_once("# %s: at most 5 %% or 1 us more than %s at %d of %d sizes\n",
                 libraries_[i]->name().c_str(), last.c_str(), met_[i], compared_);
    }
    print_once("%s", "\n");
  }

  /// The figures of each library that has the operation.
  std::vector<std::optional<Figures>> measure(const Arrays& arrays) {
    std::vector<std::optional<Figures>> figures(libraries_.size());
    std::vector<std::size_t> calls(libraries_.size());
    std::vector<std::vector<double>> times(libraries_.size());  // of a call, by round
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      if (!libraries_[i]->has(operation_.collective)) continue;
      figures[i] = {.wrong = wrong_elements(*libraries_[i], arrays)};
      calls[i] = calls_in_round(*libraries_[i], arrays);
    }
    for (int round = 0; round < settings_.rounds; ++round) {
      for (std::size_t i = 0; i < libraries_.size(); ++i) {
        if (figures[i]) times[i].push_back(time_call(*libraries_[i], arrays, calls[i]));
      }
    }
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      if (!figures[i]) continue;
      group_.all_reduce(times[i], ddp::ReduceOp::max);
      figures[i]->time = median(times[i]);
    }
    return figures;
  }

  /// Seconds of the slowest rank, the same on all ranks: the median of rounds.
  double time_copy(const Arrays& arrays) {
    std::vector<double> times;
    for (int round = 0; round < settings_.rounds; ++round) {
      group_.barrier();
      const auto began = std::chrono::steady_clock::now();
      std::memcpy(arrays.out, arrays.in, arrays.total() * sizeof(float));
      times.push_back(Seconds(std::chrono::steady_clock::now() - began).count());
    }
    group_.all_reduce(times, ddp::ReduceOp::max);
    return median(times);
  }

  /// Seconds of a call on this rank, averaged over `calls`.
  double time_call(Library& library, const Arrays& arrays, std::size_t calls) {
    group_.barrier();
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t call = 0; call < calls; ++call) library.run(operation_.collective, arrays);
    const Seconds took = std::chrono::steady_clock::now() - began;
    return took.count() / static_cast<double>(calls);
  }

  /// The same number on all ranks. Warms up, too.
  std::size_t calls_in_round(Library& library, const Arrays& arrays) {
    constexpr double kRound = 0.01;  // seconds
    for (std::size_t calls = 1;; calls *= 4) {
      double time = time_call(library, arrays, calls);
      group_.all_reduce(std::span(&time, 1), ddp::ReduceOp::max);
      if (time * static_cast<double>(calls) < kRound / 4) continue;
      return std::max<std::size_t>(static_cast<std::size_t>(std::lround(kRound / time)), 1);
    }
  }

  /// The number on all ranks together, after one call.
  std::int64_t wrong_elements(Library& library, const Arrays& arrays) {
    const auto out = out_.first(arrays.total());
    std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
    if (operation_.collective == Collective::broadcast && group_.rank() == 0) {
      std::copy_n(in_.begin(), out.size(), out.begin());
    }
    library.run(operation_.collective, arrays);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < result_size(arrays); ++i) {
      if (out[i] != expected(arrays, i)) ++wrong;
    }
    group_.all_reduce(std::span(&wrong, 1));
    return wrong;
  }

  /// Elements of the result on this rank.
  std::size_t result_size(const Arrays& arrays) const {
    if (operation_.collective == Collective::reduce && group_.rank() != 0) return 0;
    const bool is_alone = partner(group_.rank(), group_.size()) == group_.rank();
    if (operation_.collective == Collective::barrier) return 0;
    if (operation_.collective == Collective::ping_pong && is_alone) return 0;
    return operation_.collective == Collective::reduce_scatter ? arrays.count : arrays.total();
  }

  float expected(const Arrays& arrays, std::size_t at) const {
    const std::size_t own = static_cast<std::size_t>(group_.rank()) * arrays.count;
    const int block = static_cast<int>(at / arrays.count);
    switch (operation_.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        return sum(at);
      case Collective::broadcast:
        return element(0, at);
      case Collective::all_gather:
        return element(block, at % arrays.count);
      case Collective::reduce_scatter:
        return sum(own + at);
      case Collective::all_to_all:
        return element(block, own + at % arrays.count);
      case Collective::barrier:
        return 0;
      case Collective::ping_pong:
        return element(partner(group_.rank(), group_.size()), at);
    }
    std::abort();
  }

  float sum(std::size_t at) const {
    float sum = 0;
    for (int rank = 0; rank < group_.size(); ++rank) sum += element(rank, at);
    return sum;
  }

  ddp::ProcessGroup& group_;
  const Settings& settings_;
  const Operation& operation_;
  const Libraries& libraries_;
  std::array<std::shared_ptr<void>, 2> memory_;  ///< of in_ and out_
  std::span<float> in_;
  std::span<float> out_;
  int compared_ = 0;      ///< sizes
  std::vector<int> met_;  ///< number of sizes at which a library is within ddp's target
};

void run(const Settings& settings, bool mpi) {
  auto group = ddp::init_process_group({.backend = "cpu"});
  std::optional<ddp::ProcessGroup> over_mpi;
  if (mpi && kIsMpiOfDdp) over_mpi = ddp::init_process_group({.backend = "mpi"});
  Table::Libraries libraries;
  libraries.push_back(make_ddp(group));
  if (over_mpi) libraries.push_back(make_ddp(*over_mpi));
  libraries.push_back(mpi ? make_mpi() : make_gloo(group));
  for (const Operation& operation : kOperations) {
    if (settings.operation != "all" && settings.operation != operation.name) continue;
    Table(group, settings, operation, libraries).print();
  }
}

Settings settings_of(const std::vector<std::string>& arguments) {
  Settings settings;
  const auto number = [&](std::size_t place, auto& value, int least) {
    if (arguments.size() > place) value = std::max(std::atoi(arguments[place].c_str()), least);
  };
  if (!arguments.empty()) settings.operation = arguments[0];
  number(1, settings.largest, 4);
  number(2, settings.factor, 2);
  number(3, settings.rounds, 1);
  number(4, settings.ranks, 1);
  const bool known = std::ranges::any_of(
      kOperations, [&](const Operation& each) { return each.name == settings.operation; });
  if (known || settings.operation == "all") return settings;
  throw ddp::Error(ddp::ErrorKind::usage, "there is no operation " + settings.operation +
                                              ": see the head of bench/collectives.cc");
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  try {
    const Settings settings = settings_of({argv + 1, argv + argc});
    if (is_set("OMPI_COMM_WORLD_RANK") || is_set("PMI_RANK")) {
      run(settings, true);
    } else if (is_set("RANK")) {
      run(settings, false);
    } else {
      ddp::spawn(settings.ranks, [&](int) { run(settings, false); });
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_collectives: %s\n", failure.what());
    return 1;
  }
  return 0;
}
