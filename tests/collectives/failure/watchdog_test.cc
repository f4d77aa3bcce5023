// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <latch>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "collectives/backends/shm/layout.h"
#include "ddp/process_group.h"
#include "ddp/record.h"
#include "ddp/tcp_store.h"
#include "store/wire.h"
#include "tests/catch.h"
#include "tests/collectives/failure/stuck_store.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/read_json.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
using nlohmann::json;

namespace {

constexpr int kTimedOut = failed(ddp::ErrorKind::timed_out);
constexpr std::chrono::milliseconds kShortLimit(1500);
constexpr int kAhead = static_cast<int>(ddp::internal::kShmAhead);

/// Rank 1 sleeps until the others have failed; they then wake it.
void sleep_on_rank_1(ProcessGroup& group) {
  const auto store = job_store();
  group.barrier();
  group.set_timeout(kShortLimit);
  std::vector<float> data(262'144);
  if (group.rank() == 1) store->get("woken");
  try {
    group.all_reduce(data);
    wrong("a call without rank 1 went well");
  } catch (const ddp::Error&) {
    store->set("woken", "");
    throw;
  }
}

/// run_ranks() with an error file for each rank in the folder: rank_R.error.
std::vector<Ended> run_recorded(int size, const Words& command, const Folder& folder) {
  const LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    Variables variables = place(rank, size, store.port());
    variables["TORCHELASTIC_ERROR_FILE"] =
        (folder.path / ("rank_" + std::to_string(rank) + ".error")).string();
    ranks.emplace_back(command, variables);
  }
  std::vector<Ended> ended;
  for (Rank& rank : ranks) ended.push_back(rank.wait());
  return ended;
}

std::string message_of(const Folder& folder, int rank) {
  return read_json(folder.path / ("rank_" + std::to_string(rank) + ".error"))["message"]["message"];
}

}  // namespace

TEST_CASE("all name a rank that sleeps, with its last call, and it names itself when it wakes") {
  const int size = GENERATE(2, 4);
  const std::string stands =
      std::string(" timed out after 1500 ms in #2 all_reduce sum float32[262144]: ") +
      "rank 1 is in no call since #1 barrier, " + (size == 2 ? "rank 0" : "the others") +
      " at #2 all_reduce sum float32[262144]\n";
  const Folder folder;
  const Words command = rank_command([](ProcessGroup& group) { sleep_on_rank_1(group); });
  const auto ended = run_ranks(size, command, {{"DDP_TRACE_DIR", folder.path.string()}});
  for (int rank = 0; rank < size; ++rank) {
    const Ended& one = ended[static_cast<std::size_t>(rank)];
    INFO(one.output);
    CHECK(one.code == kTimedOut);
    CHECK(contains(one.output, stands));
    CHECK(contains(one.output, "ddp: rank " + std::to_string(rank) + " "));

    const json trace = read_json(folder.path / ("rank_" + std::to_string(rank) + ".json"));
    CHECK(trace["reason"].get<std::string>() + "\n" == one.output);
    const json& calls = trace["calls"];
    REQUIRE(!calls.empty());
    CHECK(calls[0]["number"] == 1);
    CHECK(calls[0]["state"] == "done");
    if (rank == 1 && calls.size() == 1) continue;  // woken before or after the alarm reached it
    REQUIRE(calls.size() == 2);
    CHECK(calls[1]["number"] == 2);
    CHECK(calls[1]["state"] != "done");  // as the alarm found it, or it has failed already
  }
}

TEST_CASE("a rank that leaves out a call is named, and its call in another group ends",
          "[mpi][nodes]") {
  const int size = GENERATE(2, 4);
  const auto ended = run_ranks(size, [](ProcessGroup& group) {
    auto other = group.split(0);
    std::vector<double> data(700);  // enough for the root to wait for the others
    if (group.rank() == 1) return other->barrier();
    group.set_timeout(kShortLimit);
    group.broadcast(data, 0);
  });
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    const Ended& one = ended[rank];
    INFO(one.output);
    CHECK(one.code == kTimedOut);
    CHECK(contains(one.output,
                   " ms in #2 broadcast float64[700] from rank 0: "
                   "rank 1 is in no call since #1 all_gather int32[2], "));
    if (rank == 1) CHECK(contains(one.output, "ddp: rank 1 failed in #1 barrier: rank "));
  }
}

TEST_CASE("a rank that waits for a third one after its data was taken times out, too") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    const auto store = job_store();
    group.barrier();
    group.set_timeout(kShortLimit);
    static_cast<void>(group.reduce(1, 0));  // shows only rank 0 that rank 2 has come so far
    if (group.rank() == 0) {
      for (int i = 0; i < kAhead; ++i) static_cast<void>(group.broadcast(i, 0));
      store->set("sent", "");
    }
    if (group.rank() != 1) store->get("woken");
    store->get("sent");
    try {
      while (true) static_cast<void>(group.broadcast(0, 0));
    } catch (const ddp::Error&) {
      store->set("woken", "");
      throw;
    }
  });
  for (const Ended& one : ended) {
    INFO(one.output);
    CHECK(one.code == kTimedOut);
    CHECK(contains(one.output, " timed out after 1500 ms in #" + std::to_string(2 + kAhead) +
                                   " broadcast int32[1] from rank 0: "));
    CHECK(contains(one.output, "rank 2 is in no call since #2 reduce sum int32[1] to rank 0"));
  }
}

TEST_CASE("timed-out calls fail before a thread waits for them, all with one sentence", "[mpi]") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    const auto store = job_store();
    group.barrier();
    group.set_timeout(kShortLimit);
    if (group.rank() == 1) store->get("woken");
    if (group.rank() == 1) return group.barrier();
    std::vector<int> data(3);
    std::vector<int> more(300'000);
    const ddp::Work works[] = {group.iall_reduce(data), group.iall_reduce(more), group.ibarrier()};
    std::string first;
    for (const ddp::Work& work : works) {
      try {
        work.wait();
        wrong("a call without rank 1 went well");
      } catch (const ddp::Error& error) {
        if (first.empty()) first = error.what();
        if (first != error.what()) wrong("another error: " + std::string(error.what()));
      }
    }
    store->set("woken", "");
    group.barrier();
  });
  check_failure(ended, ddp::ErrorKind::timed_out,
                {" ms in #2 all_reduce sum int32[3]: rank 1 is in no call "
                 "since #1 barrier, the others at #2 all_reduce sum int32[3]"});
}

// Hidden: only for MPI, where a job has one output.
TEST_CASE("the job names a rank that sleeps, with its last call", "[.][mpi]") {
  check_failure(run_ranks(3, [](ProcessGroup& group) { sleep_on_rank_1(group); }),
                ddp::ErrorKind::timed_out,
                {" timed out after 1500 ms in #2 all_reduce sum float32[262144]: rank 1 is in no "
                 "call since #1 barrier, the others at #2 all_reduce sum float32[262144]"});
}

TEST_CASE("a rank reported as lost by the launcher ends calls that no connection would end") {
  constexpr int kSize = 3;
  const std::string address = GENERATE("127.0.0.1", "::1");
  const Folder folder;
  LiveStore store(address);
  std::vector<Rank> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    Variables variables = place(rank, kSize, store.port());
    variables["MASTER_ADDR"] = address;
    variables["DDP_TRACE_DIR"] = folder.path.string();
    ranks.emplace_back(Words{program_path("waiting_ranks")}, variables);
  }
  ddp::TcpStore(address, store.port()).wait({"waits/0", "waits/1", "waits/2"});
  const std::string loss = "rank 2 on host n2 was killed by SIGKILL";
  const bool is_older = GENERATE(false, true);  // the launcher: it sends the sentence alone
  store.ring(is_older ? loss : ddprun::store::loss_text(2, loss));
  const std::string sentence = ": " + loss;
  const std::string stopped[] = {
      "ddp: rank 0 failed in #1 all_reduce sum float32[1000]" + sentence,
      "ddp: rank 1 failed",
  };
  for (const int rank : {0, 1}) {
    const Ended ended = ranks[static_cast<std::size_t>(rank)].wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ddp::ErrorKind::peer_lost));
    CHECK(contains(ended.output, " waits\n" + stopped[rank]));
    CHECK(ended.output.ends_with(sentence + "\n"));
    CHECK(contains(read_json(folder.path / ("rank_" + std::to_string(rank) + ".json"))["reason"],
                   sentence));
  }
}

TEST_CASE("a rank lost by one group ends the calls of all groups, but not of new ones") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    // Rank 2 is killed in a group with rank 0 while rank 1 waits for rank 0 in another group. Ranks
    // 0 and 1 continue in a new group.
    const int rank = group.rank();
    const auto store = job_store();
    auto with_lost = group.split(rank == 1 ? -1 : 0);
    auto without = group.split(rank == 2 ? -1 : 0);
    std::vector<float> data(1000);
    std::optional<ddp::Work> work;
    if (rank == 1) {
      work = without->iall_reduce(data);
      store->set("waits", "");
    }
    if (rank == 2) {
      store->get("waits");
      ::raise(SIGKILL);
    }
    try {
      work ? work->wait() : with_lost->all_reduce(data);
      wrong("a call without rank 2 went well");
    } catch (const ddp::Error& error) {
      std::printf("%s\n", error.what());
    }
    if (rank == 1) store->set("failed", "");
    if (rank == 0) store->get("failed");  // until then it stays in the group
    auto again =
        ddp::init_process_group({.store = std::make_shared<ddp::PrefixStore>("again", store),
                                 .rank = rank,
                                 .world_size = 2});
    again.barrier();
  });
  const std::string cause = "rank 0 lost rank 2 in #1 all_reduce sum float32[1000]: ";
  for (const int rank : {0, 1}) {
    INFO(ended[static_cast<std::size_t>(rank)].output);
    CHECK(ended[static_cast<std::size_t>(rank)].code == 0);
  }
  CHECK(ended[0].output.starts_with("ddp: " + cause));
  CHECK(ended[1].output.starts_with("ddp: rank 1 failed in #1 all_reduce sum float32[1000]: " +
                                    cause));
}

TEST_CASE("a group that cannot be left in time does not end a process with other calls") {
  // A call has 1.5 s, and 5 s more once it is aborted; a healthy call is under way for longer.
  const Words command = rank_command([](ProcessGroup& group) {
    const int rank = group.rank();
    const auto store = job_store();
    auto with_hung = group.split(rank == 2 ? -1 : 0);
    auto healthy = group.split(rank == 1 ? -1 : 0);
    if (rank == 1) {
      store->set("rank 1", std::to_string(::getpid()));
      store->get("what is never set");
    }
    if (rank == 2) store->wait({"rank 0 has waited"}, std::chrono::seconds(30));
    const ddp::Work call = healthy->ibarrier();
    if (rank == 0) {
      ::kill(std::stoi(store->get("rank 1")), SIGSTOP);
      for (ProcessGroup* each : {&group, &*with_hung, &*healthy}) each->set_timeout(kShortLimit);
      with_hung.reset();
      try {
        call.wait(std::chrono::seconds(8));
        wrong("done before rank 2 came");
      } catch (const ddp::Error& error) {
        check(error.kind() == ddp::ErrorKind::timed_out, error.what());
      }
      store->set("rank 0 has waited", "");
    }
    call.wait();
    // The first group cannot be left without rank 1; the thread sanitizer's _exit() rejects that.
    ::syscall(SYS_exit_group, 0);
  });
  for (const Ended& one : run_ranks_but(1, 3, command)) {
    INFO(one.output);
    CHECK(one.code == 0);
  }
}

TEST_CASE("a program that does not catch the error ends, and its error file has the sentence") {
  const Folder folder;
  const auto ended = run_recorded(2, rank_command([] {
                                    return ddp::record([] {
                                      ProcessGroup group = join();
                                      sleep_on_rank_1(group);
                                      return 0;
                                    });
                                  }),
                                  folder);
  for (const int rank : {0, 1}) {
    const Ended& one = ended[static_cast<std::size_t>(rank)];
    INFO(one.output);
    CHECK(one.code == 1);
    CHECK(contains(message_of(folder, rank),
                   " ms in #2 all_reduce sum float32[262144]: "
                   "rank 1 is in no call since #1 barrier"));
  }
}

TEST_CASE("a group made while the watchdog still breaks the one before stays intact") {
  check_ranks(
      2, rank_command([] {
        const auto main = std::this_thread::get_id();
        std::latch made(1);
        std::counting_semaphore breaks(0);  // the second: the watchdog has agreed on the error
        const auto store = std::make_shared<StuckStore>([&] {
          if (std::this_thread::get_id() == main) return;
          made.wait();
          breaks.release();
        });
        const int rank = std::stoi(variable_or("RANK", ""));
        const auto join_at = [&](const std::string& name) {
          std::shared_ptr<ddp::Store> here = job_store();
          if (rank == 0) here = store;
          return ddp::init_process_group({.backend = backend_of_test(),
                                          .store = std::make_shared<ddp::PrefixStore>(name, here),
                                          .rank = rank,
                                          .world_size = 2});
        };
        ProcessGroup one = join_at("one");
        if (rank == 0) {
          one.set_timeout(std::chrono::milliseconds(300));
          try {
            one.barrier();
            wrong("a barrier without rank 1");
          } catch (const ddp::Error&) {
            job_store()->set("failed", "");
          }
        }
        job_store()->get("failed");
        ProcessGroup two = join_at("two");
        made.count_down();
        for (int call = 0; rank == 0 && call < 2; ++call) breaks.acquire();
        for (int call = 0; call < 1000; ++call) two.barrier();
      }));
}

TEST_CASE("a process whose calls cannot be aborted exits, with the reason in its error file") {
  const Folder folder;
  const auto ended = run_recorded(2, rank_command([] {
                                    return ddp::record([] {
                                      return exit_code_of([] {
                                        ProcessGroup group =
                                            join({.store = std::make_shared<StuckStore>()});
                                        sleep_on_rank_1(group);
                                      });
                                    });
                                  }),
                                  folder);
  INFO(ended[0].output);
  CHECK(ended[0].code == 124);
  CHECK(contains(ended[0].output, " ms: #2 all_reduce sum float32[262144]"));
  CHECK(contains(ended[0].output, "Its calls did not end within another 5 s: ending the process"));
  CHECK(message_of(folder, 0) + "\n" == ended[0].output);
}
