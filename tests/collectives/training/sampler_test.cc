// SPDX-License-Identifier: Apache-2.0
#include "ddp/sampler.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/paths.h"

namespace {

using ddp::DistributedSampler;
using Indices = std::vector<std::size_t>;

constexpr std::uint64_t kSeed = ~std::uint64_t{0} - 2;  // seed + epoch wraps around
constexpr std::uint64_t kEpoch = 5;

/// A line of the file that tests/data/make_sampler_vectors.py makes.
struct Vector {
  std::size_t size = 0;
  int world = 0;
  bool drop_last = false;
  bool shuffle = false;
  int rank = 0;
  std::size_t count = 0;
  std::size_t distinct = 0;
  std::string indices;

  bool has_indices() const { return !shuffle || size <= 7; }
  DistributedSampler sampler() const {
    DistributedSampler made(size, world, rank,
                            {.shuffle = shuffle, .seed = kSeed, .drop_last = drop_last});
    made.set_epoch(kEpoch);
    return made;
  }
};

std::vector<Vector> vectors() {
  std::ifstream file(ddprun::tests::source_path("tests/data/sampler-vectors.tsv"));
  REQUIRE(file);
  std::vector<Vector> all;
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    Vector v;
    columns >> v.size >> v.world >> v.drop_last >> v.shuffle >> v.rank >> v.count >> v.distinct >>
        v.indices;
    REQUIRE(columns);
    all.push_back(v);
  }
  REQUIRE(all.size() > 90);
  return all;
}

/// "0+3*3,0+1*1" -> 0, 3, 6, 0
Indices numbers(const std::string& runs) {
  Indices all;
  std::istringstream text(runs);
  std::size_t first = 0;
  std::size_t step = 0;
  std::size_t count = 0;
  char sign = 0;
  while (text >> first >> sign >> step >> sign >> count) {
    for (std::size_t i = 0; i < count; ++i) all.push_back(first + i * step);
    text >> sign;
  }
  return all;
}

}  // namespace

TEST_CASE("samples are distributed as PyTorch distributes them") {
  std::size_t compared = 0;
  for (const Vector& v : vectors()) {
    INFO(v.size << " samples, rank " << v.rank << " of " << v.world << ", drop_last " << v.drop_last
                << ", shuffle " << v.shuffle);
    const DistributedSampler sampler = v.sampler();
    const Indices indices = sampler.indices();
    CHECK(sampler.size() == v.count);
    CHECK(indices.size() == v.count);
    if (!v.has_indices()) continue;
    CHECK(indices == numbers(v.indices));
    ++compared;
  }
  CHECK(compared > 70);
}

TEST_CASE("all ranks together have every sample once, except for the padding") {
  std::multiset<std::size_t> counted;
  std::set<std::size_t> seen;
  for (const Vector& v : vectors()) {
    INFO(v.size << " samples, rank " << v.rank << " of " << v.world << ", drop_last " << v.drop_last
                << ", shuffle " << v.shuffle);
    if (v.rank == 0) counted.clear(), seen.clear();
    const DistributedSampler sampler = v.sampler();
    const Indices indices = sampler.indices();
    REQUIRE(sampler.padding() <= indices.size());
    counted.insert(indices.begin(), indices.end() - static_cast<std::ptrdiff_t>(sampler.padding()));
    seen.insert(indices.begin(), indices.end());
    if (v.rank + 1 < v.world) continue;
    CHECK(seen.size() == v.distinct);
    CHECK(counted == std::multiset<std::size_t>(seen.begin(), seen.end()));
    CHECK((seen.empty() || *seen.rbegin() < v.size));
  }
}

TEST_CASE("each epoch has another order, which only seed and epoch determine") {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    DistributedSampler sampler(100, 2, 1, {.seed = seed});
    sampler.set_epoch(epoch);
    return sampler.indices();
  };
  CHECK(order(3, 0) == DistributedSampler(100, 2, 1, {.seed = 3}).indices());
  CHECK(order(3, 1) != order(3, 0));
  CHECK(order(3, 1) == order(4, 0));  // as in torch: only their sum counts
  CHECK(DistributedSampler(0, 2, 1).indices().empty());
}

TEST_CASE("all orders of a few samples are equally likely") {
  // 24 orders, 6000 shuffles: 250 of each, with a standard deviation below 16.
  std::map<Indices, int> seen;
  DistributedSampler sampler(4, 1, 0);
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
    sampler.set_epoch(epoch);
    ++seen[sampler.indices()];
  }
  CHECK(seen.size() == 24);
  for (const auto& [order, times] : seen) CHECK((times > 170 && times < 330));
}

TEST_CASE("a sampler refuses a rank that does not exist") {
  for (const auto& [size, rank] : {std::pair(0, 0), std::pair(2, 2), std::pair(2, -1)}) {
    CHECK_THROWS_AS(DistributedSampler(10, size, rank), ddp::Error);
  }
}
