// SPDX-License-Identifier: Apache-2.0
// One rank that makes every call there is: operations [large|begun].

#include "tests/collectives/call/operations.h"

#include "tests/collectives/group/begun_calls.h"

using namespace ddp_tests;
using ddp::ProcessGroup;

namespace {

/// Around 64 KiB of a block calls change from small to large; pieces have 126 KiB.
std::vector<std::size_t> counts_of(std::size_t width) {
  const std::size_t limit = (64 << 10) / width;
  const std::size_t piece = (126 << 10) / width;
  std::vector<std::size_t> counts = {0, 1, 7};
  if (!kSanitized) counts.insert(counts.end(), {1001, limit, limit + 1});
  if (!kSanitized || width == 8) counts.push_back(2 * piece + 3);
  return counts;
}

void run(ProcessGroup& group, const std::string& how) {
  if (how == "large") {
    constexpr std::size_t kBytes = std::size_t{kSanitized ? 8 : 64} << 20;
    return Checker<float, ProcessGroup>(group, kBytes / sizeof(float) / 3).large();
  }
  if (how == "begun") {
    ddprun::tests::BegunCalls begun(group);
    check_type<double>(begun, counts_of(sizeof(double)));
  } else {
    check_all(group, counts_of);
  }
  group.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  return ddprun::tests::exit_code_of([&] {
    auto group = ddp::init_process_group(
        {.backend = ddprun::tests::backend_of_test(), .timeout = std::chrono::seconds(120)});
    run(group, argc > 1 ? argv[1] : "");
  });
}
