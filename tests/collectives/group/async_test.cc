// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <pthread.h>
#include <span>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "ddp/process_group.h"
#include "ddp/record.h"
#include "ddp/tcp_store.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using ddp::Work;

namespace {

/// From now on this process can start no thread: stacks would be larger than all memory.
void refuse_threads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  check(pthread_attr_setstacksize(&attributes, std::size_t{1} << 50) == 0, "a large stack");
  check(pthread_setattr_default_np(&attributes) == 0, "the default of threads");
  pthread_attr_destroy(&attributes);
}

/// Makes a call without the other rank, and waits until it has failed.
void time_out(ProcessGroup& group, std::chrono::milliseconds limit) {
  group.set_timeout(limit);
  try {
    group.barrier();
  } catch (const ddp::Error&) {
    job_store()->set("failed", "");
    throw;
  }
}

}  // namespace

TEST_CASE("begun calls are done in their order, also among blocking ones", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  // Many calls of all lengths are under way at once, with blocking ones between them. They are
  // waited for from the last to the first.
  check_ranks(size, [](ProcessGroup& group) {
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
  });
}

TEST_CASE("a call continues after a wait that timed out", "[mpi]") {
  check_ranks(3, [](ProcessGroup& group) {
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
  });
}

TEST_CASE("a Work says how long its call took, once it has ended") {
  check_ranks(2, [](ProcessGroup& group) {
    auto other_way = group.split(0);
    std::vector<int> data = {group.rank() + 1};
    const bool is_first = group.rank() == 0;
    if (!is_first) other_way->barrier();
    const Work work = group.iall_reduce(data);
    if (is_first) {
      check(!work.duration(), "the duration of a call that still runs");
      other_way->barrier();  // the other rank has not begun before this
    }
    work.wait();
    check(work.duration() && work.duration()->count() > 0, "how long a call took");
  });
}

TEST_CASE("a function that follows a call runs after it, in its own thread") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    auto other = group.split(0);
    const int sum = group.size() * (group.size() + 1) / 2;
    std::vector<int> data(1000, group.rank() + 1);
    std::thread::id there;
    const Work both = group.iall_reduce(data).then([&] {
      check(data.back() == sum, "the sum that a call leaves to what follows it");
      there = std::this_thread::get_id();
      other->all_reduce(data);
    });
    both.wait();
    check(both.is_completed() && !both.error() && !both.duration(), "a Work that has ended");
    check(data.front() == sum * group.size(), "what a call in another group left");
    check(there != std::this_thread::get_id(), "the program's thread did what follows a call");
    std::string order;
    const Work first = group.ibarrier().then([&] { order += 'a'; });
    first.then([&] { order += 'b'; }).wait(std::chrono::minutes(1));
    check(order == "ab", "the order of what follows a call: " + order);
  });
}

TEST_CASE("the Work of then() fails with its call, and with what its function throws") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    bool is_called = false;
    const auto call = [&] { is_called = true; };
    const Work thrown = group.ibarrier().then([] { throw std::runtime_error("a bad batch"); });
    const Work own = group.ibarrier().then(
        [] { throw ddp::Error(ErrorKind::usage, "ddp: thrown by the program"); });
    const auto fails_with = [&](const Work& work, ErrorKind kind, const std::string& text) {
      try {
        work.wait();
        wrong("went well, without: " + text);
      } catch (const ddp::Error& error) {
        check(error.kind() == kind && error.what() == text, error.what());
      }
    };
    const std::string text = "ddp: a function given to Work::then threw: a bad batch";
    fails_with(thrown, ErrorKind::system, text);
    fails_with(thrown.then(call), ErrorKind::system, text);
    fails_with(own, ErrorKind::usage, "ddp: thrown by the program");
    group.barrier();  // the group is usable
    std::vector<int> data(3);
    if (group.rank() == 1) ::_exit(0);
    const Work lost = group.iall_reduce(data).then(call);
    try {
      lost.wait();
    } catch (const ddp::Error&) {
      check(!is_called, "what follows a call was done without it");
      throw;
    }
  });
  check_failure({ended[0]}, ErrorKind::peer_lost, {"lost rank 1"});
}

TEST_CASE("a function that follows a call may end the process, whatever waits for it") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    auto other = group.split(0);
    const auto store = job_store();
    const Work last = group.ibarrier().then([&store] {
      store->get("begun/" + variable_or("RANK", ""));  // calls that wait for this have begun
      std::exit(7);
    });
    const auto unreachable = [] { wrong("called after what never ended"); };
    const Work next = last.then(unreachable);
    const Work after = other->ibarrier().then([&] {
      store->set("begun/" + variable_or("RANK", ""), "");
      last.wait();
      unreachable();
    });
    const Work last_of_all = after.then(unreachable);
    last_of_all.wait();
    wrong("ended");
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 7);
    CHECK(rank.output.empty());
  }
}

TEST_CASE("calls are done even if no thread can be started, as other ranks wait for them") {
  check_ranks(2, [](ProcessGroup& group) {
    auto other = group.split(0);
    if (group.rank() == 1) refuse_threads();
    std::vector<int> data = {1};
    const Work sum = group.iall_reduce(data);
    const Work again = group.iall_reduce(data);
    again.wait();
    check(data.front() == 4, "sums");
    bool is_called = false;
    other->ibarrier().then([&] { is_called = true; }).wait();
    check(is_called, "what follows a call");
    other.reset();  // leaves in this thread
  });
}

TEST_CASE("a child made by fork() may exit, and its parent's group stays usable") {
  const Words command = rank_command([] {
    static std::optional<ProcessGroup> group;  // destroyed at exit
    group = join();
    group->barrier();
    const pid_t child = ::fork();
    if (child == 0) std::exit(0);
    int status = 0;
    ::waitpid(child, &status, 0);
    check(status == 0, "how the child ended: " + std::to_string(status));
    std::vector<float> data(300'000, 1);
    group->all_reduce(data);
    check(data.front() == 2 && data.back() == 2, "a sum");
  });
  // The child has the memory of its parent's threads, but not the threads.
  check_ranks(2, command, {{"LSAN_OPTIONS", "detect_leaks=0"}});
}

TEST_CASE("the longest possible timeout is no limit") {
  check_ranks(2, [] {
    constexpr auto kLongest = std::chrono::milliseconds::max();
    const ddp::TcpStore store(std::getenv("MASTER_ADDR"),
                              static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))),
                              {.timeout = kLongest});
    auto group = ddp::init_process_group({.backend = "cpu", .timeout = kLongest});
    group.ibarrier().wait(kLongest);
    group.set_timeout(kLongest);
    if (group.rank() == 0) group.send(3, 1);
    if (group.rank() == 1) check(group.recv<int>(0) == 3, "a message");
    check(group.split(0)->all_reduce(1) == 2, "a sum of a part");
  });
}

TEST_CASE("memory of more bytes than there are addresses is refused") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    refused([&] { (void)group.allocate(std::numeric_limits<std::size_t>::max()); });
    group.barrier();
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, ": allocate of 18446744073709551615 bytes, which is more than "));
  }
}

TEST_CASE("a call that has ended, but that nobody has waited for, is not reported as under way") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<int> data(3);
    const Work begun = group.iall_reduce(data);
    if (group.rank() == 1) {
      job_store()->get("failed");
      group.barrier();  // where rank 0 was
      return group.barrier();
    }
    begun.wait();
    time_out(group, 3s);  // by then the call has ended on rank 1, too
  });
  check_failure(ended, ErrorKind::timed_out,
                {"rank 1 is in no call since #1 all_reduce sum int32[3], rank 0 at #2 barrier"});
}

TEST_CASE("a call after one that nobody has waited for is reported as the last") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<int> data(3);
    const Work begun = group.iall_reduce(data);
    group.barrier();
    if (group.rank() == 1) {
      job_store()->get("failed");
      group.barrier();  // where rank 0 was
      return group.barrier();
    }
    time_out(group, 300ms);
  });
  check_failure(ended, ErrorKind::timed_out,
                {"rank 1 is in no call since #2 barrier, rank 0 at #3 barrier"});
}

TEST_CASE("functions that follow calls keep no memory when they have ended") {
  check_ranks(1, [](ProcessGroup& group) {
    const auto count = [] {  // a stack has one or two
      std::ifstream maps("/proc/self/maps");
      return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    };
    const auto follow = [&](int times) {
      for (int i = 0; i < times; ++i) group.ibarrier().then([] {}).wait();
    };
    follow(20);
    const auto before = count();
    follow(300);
    const auto after = count();
    check(after < before + 200, std::to_string(after - before) + " more mappings");
  });
}

TEST_CASE("all calls under way when a rank ends fail with the same error") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
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
  });
  check_failure({ended[0], ended[2]}, ErrorKind::peer_lost, {"lost rank 1"});
}

TEST_CASE("an exception aborts the calls under way") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    auto other = group.split(0);
    static std::vector<int> data(3);  // lives until the group has given up the call
    if (group.rank() == 0) {
      static_cast<void>(group.iall_reduce(data));
      throw std::runtime_error("thrown by the program");
    }
    other->barrier();  // while rank 0 is in the first group's call
  });
  INFO(ended[0].output);
  CHECK(ended[0].code == 2);
  CHECK(contains(ended[0].output, "thrown by the program"));
  check_failure({ended[1]}, ErrorKind::peer_lost, {"lost rank 0"});
}

TEST_CASE("a group ended by an exception gives up its calls while the other ranks are busy") {
  check_ranks(2, [](ProcessGroup& first) {
    static std::vector<int> data(3);  // lives until the group has given up the call
    const auto store = job_store();
    try {
      ProcessGroup second = join();
      if (first.rank() == 0) {
        store->wait({"rank 1 has joined"}, 120s);
        static_cast<void>(second.iall_reduce(data));
        throw std::logic_error("thrown by the program");
      }
      store->set("rank 1 has joined", "");
      store->wait({"rank 0 has left"}, 120s);
    } catch (const std::logic_error&) {
      store->set("rank 0 has left", "");
    }
  });
}

TEST_CASE("a crash in a thread of the library is reported like one in the program's") {
  const auto ended = run_ranks(2, [] {
    return ddp::record([] {
      ProcessGroup group = join();
      auto* const nowhere = reinterpret_cast<int*>(0x10);
      std::vector<int> data(3);
      group.iall_reduce(group.rank() == 0 ? std::span(nowhere, 3) : std::span(data)).wait();
      return 0;
    });
  });
  INFO(ended[0].output);
  CHECK(ended[0].code != 0);
  CHECK(contains(ended[0].output, "SIGSEGV: nothing is mapped at address 0x1"));
}

TEST_CASE("wait_all waits for each call, also after one has failed", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    std::vector<std::vector<int>> data(5, std::vector<int>(1000, group.rank() + 1));
    std::vector<Work> works = {Work()};
    for (auto& each : data) works.push_back(group.iall_reduce(each));
    ddp::wait_all(works);
    const int sum = group.size() * (group.size() + 1) / 2;
    for (const auto& each : data) check(each.back() == sum, "a sum after wait_all");
    ddp::wait_all({});
    works.insert(works.begin(), Work().then([] { throw std::runtime_error("a bad batch"); }));
    works.push_back(group.ibarrier());
    try {
      ddp::wait_all(works);
      wrong("wait_all of a call that failed");
    } catch (const ddp::Error& error) {
      check(error.kind() == ErrorKind::system, error.what());
    }
    check(works.back().is_completed(), "wait_all ended before its last call");
  });
}

TEST_CASE("wait_any returns the place of a call that has ended", "[mpi]") {
  check_ranks(3, [](ProcessGroup& group) {
    auto other = group.split_by_color(0);
    constexpr int kMessages = 100;
    if (group.rank() > 0) {
      for (int i = 0; i < kMessages; ++i) group.send(group.rank() * 1000 + i, 0);
      other.barrier();
      group.send(7, 0, 1);
      return;
    }
    std::array<int, 3> data = {};
    std::vector<Work> works;
    for (const int tag : {0, 1}) {
      works.push_back(
          group.irecv(std::span(data).subspan(static_cast<std::size_t>(tag), 1), 1, tag));
    }
    works.push_back(group.irecv(std::span(data).last(1), 2));
    std::array<int, 3> received = {};
    for (int i = 0; i < 2 * kMessages; ++i) {
      const std::size_t at = ddp::wait_any(works);
      check(at != 1, "wait_any of a message that nobody has sent");
      works[at].wait();
      const int from = at == 0 ? 1 : 2;
      check(data[at] == from * 1000 + received[at]++, "the messages of a rank in their order");
      if (received[at] == kMessages) {
        works[at] = works[1];
      } else {
        works[at] = group.irecv(std::span(data).subspan(at, 1), from);
      }
    }
    other.barrier();
    const std::vector<Work> last = {works[1]};
    check(ddp::wait_any(last) == 0 && data[1] == 7, "the last message");
    check(group.recv<int>(2, 1) == 7, "the message that nobody waited for");
  });
}

TEST_CASE("wait_any returns a call that failed, and refuses to wait for none") {
  check_ranks(1, [](ProcessGroup& group) {
    refused([] { static_cast<void>(ddp::wait_any({})); });
    const std::vector<Work> works = {
        group.ibarrier().then([] { throw std::runtime_error("a bad batch"); })};
    check(ddp::wait_any(works) == 0, "a call that failed");
    check(works.front().error()->kind() == ErrorKind::system, "its error");
  });
}

TEST_CASE("a default Work has ended") {
  check_ranks(1, [](ProcessGroup&) {
    Work work;
    check(work.is_completed() && !work.error() && !work.duration(), "a default Work");
    work.wait();
    work.wait(1ms);
    bool is_called = false;
    work.then([&] { is_called = true; }).wait();
    check(is_called, "what follows a default Work");
  });
}

TEST_CASE("a function that takes the error follows a call that fails, too") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::optional<ErrorKind> seen;
    const auto look = [&](const std::optional<ddp::Error>& failure) {
      seen = failure ? std::optional(failure->kind()) : std::nullopt;
    };
    if (group.rank() == 1) {
      group.barrier();
      ::_exit(0);
    }
    group.ibarrier().then(look).wait();
    check(!seen, "an error of a call that succeeded");
    std::vector<int> data(1000);
    const Work lost = group.iall_reduce(data);
    lost.then(look).wait();
    check(seen == ErrorKind::peer_lost, "the error of a call that failed");
    const Work again = lost.then([](const std::optional<ddp::Error>& failure) {
      if (failure) throw ddp::Error(*failure);
    });
    try {
      again.wait();
      wrong("no error of what threw it again");
    } catch (const ddp::Error& error) {
      check(error.kind() == ErrorKind::peer_lost, error.what());
    }
  });
  for (const Ended& one : ended) {
    INFO(one.output);
    CHECK(one.code == 0);
  }
}
