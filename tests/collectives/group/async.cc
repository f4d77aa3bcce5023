// SPDX-License-Identifier: Apache-2.0
// One rank whose calls are begun and waited for later: async SCENARIO.

#include <chrono>
#include <ddp/process_group.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::Work;

/// Many calls of all lengths under way at once, blocking ones between them, waited for from the
/// last to the first.
void many(ProcessGroup& group) {
  const float sum = static_cast<float>(group.size() * (group.size() + 1)) / 2;
  const auto own = static_cast<float>(group.rank() + 1);
  std::vector<std::vector<float>> data;
  for (std::size_t i = 0; i < 60; ++i) data.emplace_back(i % 7 == 0 ? 40'000 : i, own);
  std::vector<Work> works;
  for (std::size_t i = 0; i < data.size(); ++i) {
    works.push_back(group.iall_reduce(data[i]));
    if (i % 13 == 0) {
      std::vector<float> between(i + 1, own);
      group.all_reduce(between);
      check(between.front() == sum, "a blocking call between others");
      check(works.back().is_completed(), "a blocking call overtook one that was begun before");
    }
  }
  for (std::size_t i = data.size(); i-- > 0;) {
    works[i].wait();
    check(works[i].is_completed() && !works[i].error(), "waited for, and not completed");
    for (const float element : data[i]) check(element == sum, "all_reduce " + std::to_string(i));
  }
}

/// A call that another rank has yet to make goes on while this one computes, and may be waited for
/// with patience or without.
void late(ProcessGroup& group) {
  auto other_way = group.split(0);
  std::vector<int> data = {group.rank() + 1};
  if (group.rank() == 1) {
    other_way->barrier();  // the others are in their broadcast
    group.broadcast(data, 1);
    return;
  }
  const Work work = group.ibroadcast(data, 1);
  try {
    work.wait(std::chrono::milliseconds(1));
    wrong("done before rank 1 came");
  } catch (const ddp::Error& error) {
    check(error.kind() == ddp::ErrorKind::timed_out, "the kind of an impatient wait's error");
  }
  check(!work.is_completed() && !work.error(), "an impatient wait ended the call");
  other_way->barrier();
  work.wait(std::chrono::minutes(1));
  check(data.front() == 2, "broadcast");
}

/// Whoever has calls under way when a rank dies finds the same failure in all of them.
void die(ProcessGroup& group) {
  group.barrier();
  if (group.rank() == 1) ::_exit(0);
  std::vector<int> first(3);
  std::vector<int> second(300'000);
  const Work works[] = {group.iall_reduce(first), group.iall_reduce(second), group.ibarrier()};
  for (const Work& work : works) {
    try {
      work.wait();
      wrong("a call without rank 1 went well");
    } catch (const ddp::Error& error) {
      check(work.is_completed() && work.error(), "failed, and not completed");
      check(work.error()->what() == std::string(error.what()), "another error than was thrown");
    }
  }
  group.barrier();
}

/// An exception ends a call that would wait for ever: the others are in another group's call.
void unwind(ProcessGroup& group) {
  auto other_way = group.split(0);
  static std::vector<int> data(3);  // stays until the group has given up the call
  if (group.rank() == 0) {
    static_cast<void>(group.iall_reduce(data));
    throw std::runtime_error("thrown by the program");
  }
  other_way->barrier();
}

void run(ProcessGroup group, const std::string& scenario) {
  if (scenario == "many") return many(group);
  if (scenario == "late") return late(group);
  if (scenario == "die") return die(group);
  if (scenario == "unwind") return unwind(group);
  wrong("no scenario " + scenario);
}

}  // namespace

int main(int argc, char** argv) {
  return exit_code_of([&] {
    run(ddp::init_process_group({.backend = backend_of_test()}), argc > 1 ? argv[1] : "many");
  });
}
