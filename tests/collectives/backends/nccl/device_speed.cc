// SPDX-License-Identifier: Apache-2.0
// One rank that times all_reduce of float32 on a device, through libddp and through NCCL alone, in
// turns: device_speed [LARGEST [ROUNDS]] (268435456 bytes, 11). NCCL alone is a blocking
// communicator, and a non-blocking one like libddp's ("polled": NCCL starts a thread for each call;
// the caller polls it until the call is launched). The exit code is as device_operations'.
//
// Rank 0 prints a line for each size. "one" is a call and the wait for it. "many" is one of a row
// of calls that is waited for at its end. GB/s is that of the bus in a row (2 (n - 1) / n, as
// nccl-tests count it; for one rank, of the data). Times are medians of rounds, of the slowest
// rank.

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <nccl.h>

#include "tests/collectives/backends/nccl/device_floats.h"

using namespace ddp_tests;
using ddp::ProcessGroup;

namespace {

using Seconds = std::chrono::duration<double>;

template <class F>
F* nccl_function(const char* name) {
  static void* const library = ::dlopen("libnccl.so.2", RTLD_NOW);
  auto* const function = library == nullptr ? nullptr : ::dlsym(library, name);
  if (function == nullptr) wrong(std::string("no NCCL with ") + name);
  return reinterpret_cast<F*>(function);
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) wrong(std::string(what) + ": " + std::to_string(result));
}

#define NCCL(name, ...) check_nccl(nccl_function<decltype(::name)>(#name)(__VA_ARGS__), #name)

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// A communicator beside the group's.
class BareNccl {
 public:
  BareNccl(ProcessGroup& group, bool blocks) : blocks_(blocks) {
    ncclUniqueId id{};
    if (group.rank() == 0) NCCL(ncclGetUniqueId, &id);
    group.broadcast(std::span(id.internal));
    if (blocks) {
      NCCL(ncclCommInitRank, &handle_, group.size(), id, group.rank());
      return;
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    static auto* const connect =
        nccl_function<decltype(::ncclCommInitRankConfig)>("ncclCommInitRankConfig");
    settle(connect(&handle_, group.size(), id, group.rank(), &config));
  }
  BareNccl(const BareNccl&) = delete;
  BareNccl& operator=(const BareNccl&) = delete;
  ~BareNccl() {
    static auto* const finalize = nccl_function<decltype(::ncclCommFinalize)>("ncclCommFinalize");
    if (!blocks_) settle(finalize(handle_));
    NCCL(ncclCommDestroy, handle_);
  }

  void all_reduce(const float* in, float* out, std::size_t count, CUstream stream) const {
    static auto* const call = nccl_function<decltype(::ncclAllReduce)>("ncclAllReduce");
    static auto* const start = nccl_function<decltype(::ncclGroupStart)>("ncclGroupStart");
    static auto* const end = nccl_function<decltype(::ncclGroupEnd)>("ncclGroupEnd");
    const auto add = [&] { return call(in, out, count, ncclFloat32, ncclSum, handle_, stream); };
    if (blocks_) return check_nccl(add(), "ncclAllReduce");
    start();
    add();
    settle(end());
  }

 private:
  void settle(ncclResult_t result) const {
    static auto* const ask =
        nccl_function<decltype(::ncclCommGetAsyncError)>("ncclCommGetAsyncError");
    while (result == ncclInProgress) check_nccl(ask(handle_, &result), "ncclCommGetAsyncError");
    check_nccl(result, "a communicator that does not block");
  }

  bool blocks_;
  ncclComm_t handle_ = nullptr;
};

struct Library {
  const char* name;
  std::function<void(std::size_t count)> all_reduce;
};

/// The times of a call, in seconds.
struct Times {
  std::vector<double> one;
  std::vector<double> many;
};

class Speed {
 public:
  Speed(ProcessGroup& group, std::size_t largest, int rounds)
      : group_(group),
        rounds_(rounds),
        stream_(make_stream()),
        in_(stream_, own(group), largest / sizeof(float)),
        out_(stream_, 0, largest / sizeof(float)) {}

  /// Connects twice: a process's first connection loads and finds more than the next.
  void connect() {
    const double first = connect_group(group_);
    const double alone = slowest(seconds_of([&] {
      bare_ = std::make_unique<BareNccl>(group_, true);
      with_nccl(*bare_, 1);
      settle();
    }));
    polled_ = std::make_unique<BareNccl>(group_, false);
    auto again = group_.split(0);
    const double second = connect_group(*again);
    print_once(
        "connect: %.0f ms through ddp, then %.0f ms through NCCL alone, %.0f ms through ddp\n",
        first * 1e3, alone * 1e3, second * 1e3);
  }

  void compare() {
    const std::array libraries = {
        Library{"ddp", [this](std::size_t count) { with_ddp(count); }},
        Library{"NCCL", [this](std::size_t count) { with_nccl(*bare_, count); }},
        Library{"polled", [this](std::size_t count) { with_nccl(*polled_, count); }},
    };
    print_once("%10s  %26s  %26s  %15s\n", "", "one (us)", "many (us)", "GB/s");
    print_once("%10s  %8s %8s %8s  %8s %8s %8s  %7s %7s\n", "bytes", "ddp", "NCCL", "polled", "ddp",
               "NCCL", "polled", "ddp", "NCCL");
    const std::size_t most = in_.span().count;
    for (std::size_t count = 1; count <= most; count *= count < 256 ? 256 : 4) {
      compare(libraries, count);
    }
    print_once("aim (1 %% from 1 MiB on, 3 us below) met at %d of %d sizes\n", met_, compared_);
  }

 private:
  template <class... Args>
  void print_once(const char* format, Args... args) const {
    if (group_.rank() == 0) std::printf(format, args...);
    std::fflush(stdout);
  }

  void settle() const { DRIVER(cuStreamSynchronize, stream_); }

  double slowest(double time) const { return group_.all_reduce(time, ddp::ReduceOp::max); }

  double connect_group(ProcessGroup& group) {
    return slowest(seconds_of([&] {
      group.all_reduce(part(in_, 1), part(out_, 1));
      settle();
    }));
  }

  static ddp::DeviceSpan<float> part(const Floats& of, std::size_t count) {
    const auto whole = of.span();
    return {whole.data, count, whole.stream};
  }

  void with_ddp(std::size_t count) const { group_.all_reduce(part(in_, count), part(out_, count)); }
  void with_nccl(const BareNccl& nccl, std::size_t count) const {
    nccl.all_reduce(in_.span().data, out_.span().data, count, stream_);
  }

  double time(const Library& library, std::size_t count, int calls) const {
    group_.barrier();
    return seconds_of([&] {
             for (int call = 0; call < calls; ++call) library.all_reduce(count);
             settle();
           }) /
           calls;
  }

  void compare(const std::array<Library, 3>& libraries, std::size_t count) {
    const int calls = static_cast<int>(std::clamp<std::size_t>((64U << 20U) / count, 2, 100));
    std::array<Times, 3> times;
    for (int round = -1; round < rounds_; ++round) {
      for (std::size_t i = 0; i < libraries.size(); ++i) {
        const double one = slowest(time(libraries[i], count, 1));
        const double many = slowest(time(libraries[i], count, calls));
        if (round < 0) continue;  // warms up
        times[i].one.push_back(one);
        times[i].many.push_back(many);
      }
    }
    print_row(count * sizeof(float), times[0], times[1], times[2]);
  }

  void print_row(std::size_t bytes, const Times& ours, const Times& theirs, const Times& polled) {
    const double size = group_.size();
    const double factor = size > 1 ? 2 * (size - 1) / size : 1;
    const double mine = median(ours.many);
    const double its = median(theirs.many);
    const auto rate = [&](double time) { return static_cast<double>(bytes) / time / 1e9 * factor; };
    print_once("%10zu  %8.2f %8.2f %8.2f  %8.2f %8.2f %8.2f  %7.2f %7.2f\n", bytes,
               median(ours.one) * 1e6, median(theirs.one) * 1e6, median(polled.one) * 1e6,
               mine * 1e6, its * 1e6, median(polled.many) * 1e6, rate(mine), rate(its));
    ++compared_;
    const bool is_met = bytes >= 1U << 20U ? mine <= 1.01 * its : mine <= its + 3e-6;
    if (is_met) ++met_;
  }

  ProcessGroup& group_;
  int rounds_;
  CUstream stream_;
  Floats in_;
  Floats out_;
  std::unique_ptr<BareNccl> bare_;
  std::unique_ptr<BareNccl> polled_;
  int compared_ = 0;  // sizes
  int met_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t largest = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256U << 20U;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  const int devices = count_devices();
  if (devices == 0) {
    std::printf("no GPU here\n");
    return 77;
  }
  return ddprun::tests::exit_code_of([&] {
    auto group = ddp::init_process_group({.backend = "nccl", .timeout = std::chrono::minutes(2)});
    use_device(group.rank() % devices);
    Speed speed(group, largest, rounds);
    speed.connect();
    speed.compare();
    group.barrier();
  });
}
