// SPDX-License-Identifier: Apache-2.0
#include "ddp/device_mesh.h"

#include <chrono>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::DeviceMesh;
using ddp::MeshDimension;
using ddp::ProcessGroup;

namespace {

/// Checks that in a mesh of these sizes each group has the ranks that differ only in its dimension.
void check_mesh(ProcessGroup& group, const std::vector<MeshDimension>& dimensions) {
  const int own = group.rank();
  DeviceMesh mesh = ddp::mesh(*group.split(0), dimensions);
  check(mesh.whole().size() == group.size(), "the whole group");
  int stride = 1;
  for (auto each = dimensions.rbegin(); each != dimensions.rend(); ++each) {
    ProcessGroup& line = mesh.group(each->name);
    const int at = own / stride % each->size;
    std::vector<int> expected;
    for (int other = 0; other < each->size; ++other) {
      expected.push_back(own + (other - at) * stride);
    }
    check(line.rank() == at, "the place along " + each->name);
    check(line.all_gather(own) == expected, "the group along " + each->name);
    stride *= each->size;
  }
}

}  // namespace

TEST_CASE("a mesh has a group for each line of ranks along a dimension", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    const int ranks = group.size();
    check_mesh(group, {{"all", ranks}});
    check_mesh(group, {{"dp", ranks}, {"tp", 1}});
    check_mesh(group, {{"dp", 1}, {"pp", 1}, {"tp", ranks}});
    if (ranks == 4) check_mesh(group, {{"dp", 2}, {"tp", 2}});
  });
}

TEST_CASE("a mesh of three dimensions is made of the group that the options describe") {
  check_ranks(8, [] {
    DeviceMesh mesh = ddp::mesh({{"dp", 2}, {"pp", 2}, {"tp", 2}},
                                {.backend = backend_of_test(), .timeout = std::chrono::minutes(2)});
    check_mesh(mesh.whole(), mesh.dimensions());
  });
}

TEST_CASE("a mesh that does not fit the group is refused") {
  const auto ended = run_ranks(1, [](ProcessGroup& group) {
    const std::vector<std::vector<MeshDimension>> wrong_ones = {
        {{"dp", 3}},
        {{"dp", 2}, {"tp", 2}},
        {{"dp", -1}, {"tp", -1}},
        {{"dp", 1}, {"dp", 1}},
        {{"", 1}},
        {{"dp", 65536}, {"pp", 65536}, {"tp", 65536}, {"cp", 65536}}};
    for (const auto& dimensions : wrong_ones) {
      refused([&] { (void)ddp::mesh(*group.split(0), dimensions); });
    }
    refused([&] { (void)ddp::mesh(*group.split(0), {{"dp", 1}}).group("tp"); });
    refused([&] { (void)ddp::mesh(*group.split(0), {}).group("tp"); });
  });
  const std::string& output = ended[0].output;
  INFO(output);
  CHECK(ended[0].code == 0);
  CHECK(contains(output,
                 "a mesh of dp 2 x tp 2: the product of the sizes must be the number of ranks, 1"));
  CHECK(contains(output, "a mesh of dp -1 x tp -1: sizes must be above 0"));
  CHECK(contains(output, "a mesh of dp 1 x dp 1: dp is named twice"));
  CHECK(contains(output, ": each dimension needs a name"));
  CHECK(contains(output, "a mesh of dp 1 has no dimension tp"));
  CHECK(contains(output, "a mesh of no dimensions has no dimension tp"));
}

TEST_CASE("ranks that arrange different meshes get an error that says so") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    (void)ddp::mesh(*group.split(0), {{first ? "dp" : "tp", 2}});
  });
  check_failure(ended, ddp::ErrorKind::mismatch,
                {"ranks do not agree on the dimensions of a mesh: dp 2 on rank 0, tp 2 on rank 1"});
}
