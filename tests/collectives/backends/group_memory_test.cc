// SPDX-License-Identifier: Apache-2.0
// Calls with data in memory of ProcessGroup::allocate(), shared with the other ranks or not.
#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "tests/catch.h"
#include "tests/collectives/limit_memory.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;

namespace {

/// The ranks' calls whose data is at the same place of shared memory.
enum class Place { same, elsewhere_on_rank_0, shifted_on_rank_1 };

constexpr std::size_t kMost = 300'001;

/// Room for the data of a call, and for its result.
class Buffers {
 public:
  Buffers(ProcessGroup& group, Place place) {
    const std::size_t room = kMost * static_cast<std::size_t>(group.size()) + 16;
    for (std::size_t i = 0; i < 2; ++i) {
      memory_[i] = group.allocate(room * sizeof(float));
      own_[i].resize(room);
      auto* const shared = static_cast<float*>(memory_[i].get());
      check(std::all_of(shared, shared + room, [](float x) { return x == 0; }), "zeros");
      const bool is_own = place == Place::elsewhere_on_rank_0 && group.rank() == 0;
      const bool is_shifted = place == Place::shifted_on_rank_1 && group.rank() == 1;
      all_[i] = std::span(is_own ? own_[i].data() : shared, room).subspan(is_shifted ? 16 : 0);
    }
  }
  std::span<float> in(std::size_t count) const { return all_[0].first(count); }
  std::span<float> out(std::size_t count) const { return all_[1].first(count); }

 private:
  std::array<std::shared_ptr<void>, 2> memory_;
  std::array<std::vector<float>, 2> own_;
  std::array<std::span<float>, 2> all_;
};

/// Elements whose sums are exact.
float element(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 61);
}

float sum(int size, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += element(rank, i);
  return sum;
}

void fill(int rank, std::span<float> data) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = element(rank, i);
}

template <class F>
void check_is(std::span<const float> data, const char* what, F expected) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == expected(i)) continue;
    wrong(std::string(what) + " at " + std::to_string(i) + " of " + std::to_string(data.size()) +
          ": " + std::to_string(data[i]) + ", expected " + std::to_string(expected(i)));
  }
}

/// Makes each call, in place and out of place; overwrites `in` as soon as it has returned.
void make_calls(ProcessGroup& group, const Buffers& buffers, std::size_t count) {
  const int rank = group.rank();
  const int size = group.size();
  const std::size_t all = count * static_cast<std::size_t>(size);
  const std::size_t own = count * static_cast<std::size_t>(rank);
  const auto ours = [&](std::size_t i) { return element(rank, i); };
  const auto total = [&](std::size_t i) { return sum(size, i); };
  const auto own_total = [&](std::size_t i) { return sum(size, own + i); };
  const auto gathered = [&](std::size_t i) { return element(int(i / count), i % count); };
  const auto swapped = [&](std::size_t i) { return element(int(i / count), own + i % count); };

  fill(rank, buffers.in(count));
  group.all_reduce(buffers.in(count), buffers.out(count));
  check_is(buffers.in(count), "in of all_reduce", ours);
  check_is(buffers.out(count), "all_reduce", total);
  group.all_reduce(buffers.in(count));
  check_is(buffers.in(count), "all_reduce in place", total);

  fill(rank, buffers.in(count));
  group.broadcast(buffers.in(count), size - 1);
  check_is(buffers.in(count), "broadcast", [&](std::size_t i) { return element(size - 1, i); });

  fill(rank, buffers.in(count));
  group.reduce(buffers.in(count), buffers.out(count), 0);
  fill(size, buffers.in(count));
  if (rank == 0) check_is(buffers.out(count), "reduce", total);
  fill(rank, buffers.in(count));
  group.reduce(buffers.in(count), size - 1);
  check_is(buffers.in(count), "reduce in place",
           [&](std::size_t i) { return rank == size - 1 ? total(i) : ours(i); });

  fill(rank, buffers.in(count));
  group.all_gather(buffers.in(count), buffers.out(all));
  fill(rank, buffers.out(all).subspan(own, count));
  check_is(buffers.out(all), "all_gather", gathered);
  fill(size, buffers.out(own));
  group.all_gather(buffers.out(all).subspan(own, count), buffers.out(all));
  check_is(buffers.out(all), "all_gather in place", gathered);

  fill(rank, buffers.in(all));
  group.reduce_scatter(buffers.in(all), buffers.out(count));
  check_is(buffers.in(all), "in of reduce_scatter", ours);
  check_is(buffers.out(count), "reduce_scatter", own_total);
  group.reduce_scatter(buffers.in(all), buffers.in(all).subspan(own, count));
  check_is(buffers.in(all).subspan(own, count), "reduce_scatter in place", own_total);

  fill(rank, buffers.in(all));
  group.all_to_all(buffers.in(all), buffers.out(all));
  check_is(buffers.out(all), "all_to_all", swapped);
  group.all_to_all(buffers.in(all), buffers.in(all));
  check_is(buffers.in(all), "all_to_all in place", swapped);
}

/// The number of mappings of groups' memory in this process.
int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:ddp ") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("calls give the right results wherever their data is in the group's memory",
          "[tcp][nodes]") {
  const int size = GENERATE(2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    for (const Place place : {Place::same, Place::elsewhere_on_rank_0, Place::shifted_on_rank_1}) {
      const Buffers buffers(group, place);
      for (const std::size_t count : {std::size_t{5'461}, std::size_t{16'384}, kMost}) {
        make_calls(group, buffers, count);
      }
    }
  });
}

TEST_CASE("the group's memory has elements of any size, and outlives the group", "[tcp][nodes]") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr std::size_t kCount = 100'003;
    std::optional<ProcessGroup> part = group.split(0);
    const auto memory = part->allocate(kCount * sizeof(double));
    const std::span bytes(static_cast<std::uint8_t*>(memory.get()), kCount);
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{3});
    part->all_reduce(bytes, ddp::ReduceOp::product);
    check(bytes.front() == 9 && bytes.back() == 9, "product of bytes");
    const std::span doubles(static_cast<double*>(memory.get()), kCount);
    std::fill(doubles.begin(), doubles.end(), 0.5 + group.rank());
    part->all_reduce(doubles, ddp::ReduceOp::avg);
    check(doubles.front() == 1 && doubles.back() == 1, "average of doubles");
    part.reset();
    group.all_reduce(doubles);  // in another group it is memory like any other
    check(doubles.front() == 2 && doubles.back() == 2, "sum in another group");
  });
}

TEST_CASE("allocations of different sizes are named, and fail the group", "[tcp][nodes]") {
  const auto ended = run_ranks(
      3, [](ProcessGroup& group) { (void)group.allocate(group.rank() == 1 ? 101 : 100); });
  check_failure(ended, ErrorKind::mismatch, {"allocate uint8[100]", "allocate uint8[101]"});
}

TEST_CASE("if one rank cannot map the memory of all, each rank gets its own memory") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    group.barrier();
    // Less than twice as much; the rest is for malloc() in threads that begin at the same time.
    const std::optional<rlimit> before =
        group.rank() == 1 ? std::optional(limit_memory(kBytes + kBytes / 4 * 3)) : std::nullopt;
    const int mapped = shared_mappings();
    const auto memory = group.allocate(kBytes);
    check(shared_mappings() == mapped, "memory is shared");
    if (before) check(::setrlimit(RLIMIT_AS, &*before) == 0, "setrlimit back");
    const std::span data(static_cast<float*>(memory.get()), kMost);
    fill(group.rank(), data);
    group.all_reduce(data);
    check_is(data, "all_reduce", [](std::size_t i) { return sum(2, i); });
    const auto next = group.allocate(kMost * sizeof(float));
    check(shared_mappings() == mapped + 1, "later memory is not shared");
  });
}

TEST_CASE("memory that the host does not have is refused on every rank, and the group stays usable",
          "[tcp][nodes]") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr std::size_t kBytes = std::size_t{1} << 46;
    try {
      static_cast<void>(group.allocate(kBytes));
      wrong("allocated");
    } catch (const ddp::Error& error) {
      const std::string text = error.what();
      check(text.find(" has no memory left for allocate of " + std::to_string(kBytes) + " bytes") !=
                text.npos,
            text);
    }
    group.barrier();
  });
}

TEST_CASE("the gradients of a DistributedDataParallel are in memory that its ranks share") {
  check_ranks(2, [](ProcessGroup& group) {
    std::vector<float> parameter(100'000);
    const int mapped = shared_mappings();
    {
      const ddp::DistributedDataParallel model(group, {parameter});
      check(shared_mappings() == mapped + 1, "gradients are not shared");
    }
    check(shared_mappings() == mapped, "gradients are not given back");
  });
}
