// SPDX-License-Identifier: Apache-2.0
// One rank of a group in which something goes wrong: failing SCENARIO [FILE], over the backend that
// DDP_TEST_BACKEND names.

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ddp/process_group.h>
#include <ddp/record.h>
#include <ddp/tcp_store.h>
#include <ddp/trace.h>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using namespace ddprun::tests;
using ddp::ProcessGroup;

constexpr std::chrono::milliseconds kImpatient(1500);

std::shared_ptr<ddp::TcpStore> store_of_job() {
  return std::make_shared<ddp::TcpStore>(
      std::getenv("MASTER_ADDR"),
      static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
}

/// Calls of several kinds, in two groups; then rank 1 makes another than the others.
void differ(ProcessGroup& group) {
  auto part = group.split(group.rank() % 2);
  std::vector<float> data(1000);
  group.all_reduce(data, ddp::ReduceOp::max);
  part->barrier();
  const ddp::Work work = group.ibroadcast(data, 1);
  work.wait();
  if (group.rank() == 0) group.send(data, 1, 5);
  if (group.rank() == 1) group.recv(data, 0, 5);
  if (group.rank() == 1) return group.barrier();
  group.all_reduce(data);
}

/// More calls than a trace keeps.
void many(ProcessGroup& group, const std::string& file) {
  for (int i = 0; i < 3000; ++i) group.barrier();
  ddp::write_trace(file);
  try {
    ddp::write_trace(file + "/not-a-folder");
    wrong("a trace was written into a file");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
  group.barrier();
}

/// Rank 1 sleeps until the others have failed, who go on and wake it.
void sleep(ProcessGroup& group) {
  const auto store = store_of_job();
  group.barrier();
  group.set_timeout(kImpatient);
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

/// Rank 1 leaves out a call and waits, patiently, in a call of another group.
void skip(ProcessGroup& group) {
  auto other = group.split(0);
  std::vector<double> data(7);
  if (group.rank() == 1) return other->barrier();
  group.set_timeout(kImpatient);
  group.broadcast(data, 0);
}

/// Nobody waits for the calls before they are all overdue.
void begun(ProcessGroup& group) {
  const auto store = store_of_job();
  group.barrier();
  group.set_timeout(kImpatient);
  if (group.rank() == 1) store->get("woken");
  if (group.rank() == 1) return group.barrier();
  std::vector<int> data(3);
  std::vector<int> more(300'000);
  const ddp::Work works[] = {group.iall_reduce(data), group.iall_reduce(more), group.ibarrier()};
  std::string told;
  for (const ddp::Work& work : works) {
    try {
      work.wait();
      wrong("a call without rank 1 went well");
    } catch (const ddp::Error& error) {
      if (told.empty()) told = error.what();
      if (told != error.what()) wrong("another error: " + std::string(error.what()));
    }
  }
  store->set("woken", "");
  group.barrier();
}

/// Nothing is where rank 0's data should be; a thread of the library looks there.
void crash(ProcessGroup& group) {
  auto* const nowhere = reinterpret_cast<int*>(0x10);
  std::vector<int> data(3);
  group.iall_reduce(group.rank() == 0 ? std::span(nowhere, 3) : std::span(data)).wait();
}

/// Rank 2 is killed in a group with rank 0, while rank 1 waits for rank 0 in another. The two go on
/// in a new group.
void lose_beside(ProcessGroup& group) {
  const int rank = group.rank();
  const auto store = store_of_job();
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
  if (rank == 0) store->get("failed");  // it has not left the group
  auto again = ddp::init_process_group(
      {.store = std::make_shared<ddp::PrefixStore>("again", store), .rank = rank, .world_size = 2});
  again.barrier();
}

/// The last rank waits for nobody, rank 1 for the failure of rank 0, which waits for rank 1: no
/// connection to the last rank has a reader. Nobody ends when asked to.
void deaf(ProcessGroup& group) {
  std::signal(SIGTERM, SIG_IGN);
  const int rank = group.rank();
  const bool is_last = rank + 1 == group.size();
  const auto store = store_of_job();
  auto others = group.split(is_last ? -1 : 0);
  std::vector<float> data(1000);
  std::optional<ddp::Work> work;
  if (rank == 0) work = others->iall_reduce(data);
  store->set("waits/" + std::to_string(rank), "");
  std::printf("rank %d waits\n", rank);
  std::fflush(stdout);
  if (is_last) ::pause();
  if (rank == 1) store->get("failed");
  try {
    if (work) work->wait();
    const int calls = rank == 1 ? 2 : 0;  // rank 0 may have heard first, and begun the first
    for (int call = 0; call < calls; ++call) others->all_reduce(data);
    wrong("a call without rank 1 went well");
  } catch (const ddp::Error&) {
    store->set("failed", "");
    throw;
  }
}

/// A store that takes everything but an agreed error, and does not say so.
class StuckStore : public ddp::Store {
 public:
  std::string name() const override { return "a stuck store"; }

 private:
  void do_set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::int64_t do_add(std::string_view key, std::int64_t amount) override {
    return store_->add(key, amount);
  }
  bool do_check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired) override {
    std::unique_lock lock(mutex_);
    if (key.ends_with("agreed_error")) never_.wait(lock, [] { return false; });
    return store_->compare_set(key, expected, desired);
  }
  bool do_delete_key(std::string_view key) override { return store_->delete_key(key); }
  std::int64_t do_num_keys() override { return store_->num_keys(); }
  void do_append(std::string_view key, std::string_view suffix) override {
    store_->append(key, suffix);
  }
  void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) override {
    store_->multi_set(entries);
  }
  bool do_wait(const std::vector<std::string>& keys, Deadline deadline) override {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      store_->wait(keys, std::max(left, milliseconds(0)));
    } catch (const ddp::Error& error) {
      if (error.kind() != ddp::ErrorKind::timed_out) throw;
      return false;
    }
    return true;
  }
  std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) override {
    return store_->multi_get(keys);
  }

  const std::shared_ptr<ddp::TcpStore> store_ = store_of_job();
  std::mutex mutex_;
  std::condition_variable never_;
};

void run(ProcessGroup& group, const std::string& scenario, const std::string& file) {
  if (scenario == "differ") return differ(group);
  if (scenario == "many") return many(group, file);
  if (scenario == "sleep" || scenario == "stuck" || scenario == "uncaught") return sleep(group);
  if (scenario == "skip") return skip(group);
  if (scenario == "begun") return begun(group);
  if (scenario == "crash") return crash(group);
  if (scenario == "deaf") return deaf(group);
  if (scenario == "lose-beside") return lose_beside(group);
  wrong("no scenario " + scenario);
}

int start(const std::string& scenario, const std::string& file) {
  const auto work = [&] {
    ddp::Options options{.backend = backend_of_test()};
    if (scenario == "stuck") options.store = std::make_shared<StuckStore>();
    auto group = ddp::init_process_group(options);
    run(group, scenario, file);
  };
  if (scenario != "uncaught") return exit_code_of(work);
  work();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record([&] { return start(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""); });
}
