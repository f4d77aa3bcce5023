// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/shm/layout.h"
#include "collectives/backends/shm/other_memory.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/backends/mail.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::Work;
using ddp::internal::MemoryMark;

namespace {

/// The bytes of this process's mappings of memory that the ranks share.
std::size_t shared_bytes() {
  std::ifstream maps("/proc/self/maps");
  std::size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    std::size_t begin = 0;
    std::size_t end = 0;
    if (line.find("/memfd:ddp ") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2) bytes += end - begin;
  }
  return bytes;
}

/// The TCP connections of this process, without those to the store.
int count_connections() {
  const auto store = static_cast<unsigned>(std::stoul(variable_or("MASTER_PORT", "0")));
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    boost::asio::ip::tcp::endpoint peer;
    auto length = static_cast<socklen_t>(peer.capacity());
    const int fd = std::stoi(entry.path().filename().string());
    if (::getpeername(fd, peer.data(), &length) != 0 || length > peer.capacity()) continue;
    const int family = peer.data()->sa_family;
    if ((family == AF_INET || family == AF_INET6) && peer.port() != store) ++count;
  }
  return count;
}

/// Whether both rings are mapped: until then messages go through the connection.
bool are_two_rings_mapped(ProcessGroup& group) {
  const std::size_t before = shared_bytes();
  group.barrier();  // the other rank's first message maps one
  const auto expected = before + 2 * sizeof(ddp::internal::ShmRingMemory);
  for (int time = 0; time < 8; ++time) {
    both_ways(group);
    if (group.all_reduce(shared_bytes() == expected ? 1 : 0) == group.size()) return true;
  }
  return false;
}

/// Whether the kernel lets this process read that one's memory: it checks that before it reports
/// that there is no memory.
bool may_read_memory(pid_t process) {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec nowhere{nullptr, 1};
  return ::process_vm_readv(process, &here, 1, &nowhere, 1, 0) == -1 && errno == EFAULT;
}

/// A process that is stopped by a signal while this lives.
class Stopped {
 public:
  explicit Stopped(pid_t process) : process_(process) { ::kill(process_, SIGSTOP); }
  Stopped(const Stopped&) = delete;
  ~Stopped() { ::kill(process_, SIGCONT); }

 private:
  const pid_t process_;
};

/// Refuses reading other processes' memory, as the rules of a container may do.
void refuse_other_memory() {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{rules.size(), rules.data()};
  check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  check(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0,
        "seccomp");
}

/// Sends from memory of allocate() that rank 1 does not map any more: the kernel has to read it.
void send_from_unmapped(ProcessGroup& group) {
  auto memory = group.allocate(kLong * sizeof(float));
  const Elements message = elements(0, 5, kLong);
  if (group.rank() == 0) {
    const std::span sent(static_cast<float*>(memory.get()), kLong);
    std::ranges::copy(message, sent.begin());
    return group.send(sent, 1, 5);
  }
  memory.reset();
  Elements got(kLong, -1);
  group.recv(got, 0, 5);
  check(got == message, "the message");
}

/// Swaps messages with blocking calls; rank 0 sends first.
void swap_messages(ProcessGroup& group, int tag, std::size_t count) {
  const int other = 1 - group.rank();
  const Elements sent = elements(group.rank(), tag, count);
  Elements got(count, -1);
  if (group.rank() == 0) group.send(sent, other, tag);
  group.recv(got, other, tag);
  if (group.rank() == 1) group.send(sent, other, tag);
  check(got == elements(other, tag, count), "a message of " + std::to_string(count));
}

/// Memory of this program alone, at least one huge page.
class HugeMemory {
 public:
  explicit HugeMemory(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    constexpr int kMadvCollapse = 25;  // MADV_COLLAPSE of Linux 6.1
    std::memset(data(), 0, bytes_);
    ::madvise(data(), bytes_, kMadvCollapse);
  }
  void* data() const { return memory_.get(); }
  bool is_huge() const { return MemoryMark(1).is_in_huge_page(data()).value_or(false); }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  const std::size_t bytes_;
  const std::unique_ptr<void, decltype(&std::free)> memory_{std::aligned_alloc(kPage, bytes_),
                                                            &std::free};
};

/// Rank 1 gets a message in `sent` from rank 0, which is stopped. (Not if the kernel has to read
/// the message, and may not.)
void receive_from_stopped(ProcessGroup& group, std::span<float> sent, bool is_mapped) {
  check(are_two_rings_mapped(group), "two rings");
  both_ways(group);  // now through the rings
  const Elements message = elements(0, 5, sent.size());
  const pid_t sender = group.broadcast(::getpid());
  if (group.rank() == 0) {
    std::ranges::copy(message, sent.begin());
    const Work work = group.isend(sent, 1, 5);
    group.send(1, 1, 6);
    return work.wait();
  }
  static_cast<void>(group.recv<int>(0, 6));  // the other message is announced
  Elements got(sent.size(), -1);
  {
    std::optional<Stopped> stopped;
    if (is_mapped || may_read_memory(sender)) stopped.emplace(sender);
    group.recv(got, 0, 5);
  }
  check(got == message, "the message");
}

}  // namespace

TEST_CASE("two ranks of a node have a connection in each direction, whatever they exchange") {
  check_ranks(3, [](ProcessGroup& group) {
    const int expected = 2 * (group.size() - 1);
    bool is_expected = false;  // the ends of those by which the group formed come in the background
    for (int time = 0; time < 50 && !is_expected; ++time) {
      both_ways(group);
      is_expected = group.all_reduce(count_connections() == expected ? 1 : 0) == group.size();
    }
    check(is_expected, std::to_string(count_connections()) + " connections");
  });
}

TEST_CASE("messages of any length go both ways at once, whichever side begins first",
          "[mpi][tcp][nodes]") {
  const int size = GENERATE(2, 4);
  check_ranks(size, [](ProcessGroup& group) { both_ways(group); });
}

TEST_CASE("a rank finds which rank's message came, and receives it", "[tcp][nodes]") {
  const auto count = GENERATE(std::size_t{1}, kLong);
  check_ranks(
      3,
      [](ProcessGroup& group, std::size_t elements) {
        std::vector<float> data(elements, static_cast<float>(group.rank()));
        for (int time = 0; time < 2; ++time) {
          group.barrier();
          if (group.rank() != 0) {
            group.send(data, 0, 5);
            continue;
          }
          std::vector<int> senders;
          for (int left = 2; left > 0; --left) {
            senders.push_back(group.probe(5));
            group.recv(data, senders.back(), 5);
            check(data.back() == static_cast<float>(senders.back()), "the sender's data");
          }
          std::ranges::sort(senders);
          check(senders == std::vector<int>{1, 2}, "one message of each rank");
        }
      },
      count);
}

TEST_CASE("a probe for a message that does not come times out, and the group is used further") {
  check_ranks(2, [](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 0) {
      const auto timeout = group.timeout();
      group.set_timeout(std::chrono::milliseconds(50));
      std::string text;
      try {
        (void)group.probe(5);
      } catch (const ddp::Error& error) {
        text = error.what();
      }
      check(text == "ddp: rank 0 timed out after 50 ms waiting for a message of any rank, tag 5",
            text);
      group.set_timeout(timeout);
    }
    group.barrier();
  });
}

TEST_CASE("messages of ranks that share memory go through it") {
  check_ranks(2, [](ProcessGroup& group) { check(are_two_rings_mapped(group), "two rings"); });
}

TEST_CASE("a rank that may map no ring gets its messages through its connection") {
  check_ranks(2, [](ProcessGroup& group) {
    const std::size_t before = shared_bytes();
    group.barrier();
    if (group.rank() == 1) give_up_shared_memory();  // it makes the rings that it reads
    group.barrier();
    both_ways(group);
    check(shared_bytes() <= before + sizeof(ddp::internal::ShmRingMemory), "at most one ring");
  });
}

TEST_CASE("ranks read long messages in allocate() memory in place, even of a stopped rank") {
  const bool is_mapped = GENERATE(true, false);  // by the receiver; otherwise the kernel reads it
  const std::size_t count = GENERATE(kShort / 2, kLong);
  check_ranks(
      2,
      [](ProcessGroup& group, bool keeps, std::size_t elements) {
        auto memory = group.allocate(elements * sizeof(float));
        const std::span sent(static_cast<float*>(memory.get()), elements);
        if (group.rank() == 1 && !keeps) memory.reset();
        receive_from_stopped(group, sent, keeps);
      },
      is_mapped, count);
}

TEST_CASE("ranks read long messages in any memory in place, if its pages are huge") {
  if (!HugeMemory(1).is_huge() || !may_read_memory(::getpid())) {
    SUCCEED("skipped: the kernel makes no huge page, does not tell, or reads no memory of others");
    return;
  }
  static const char small = 0;
  CHECK(MemoryMark(1).is_in_huge_page(&small) == false);
  check_ranks(2, [](ProcessGroup& group) {
    const HugeMemory memory(kLong * sizeof(float));
    check(memory.is_huge(), "huge pages");
    receive_from_stopped(group, {static_cast<float*>(memory.data()), kLong}, false);
  });
}

TEST_CASE("a rank that may not read others' memory gets long messages all the same") {
  const bool was_allowed = GENERATE(false, true);
  check_ranks(
      2,
      [](ProcessGroup& group, bool allowed) {
        const auto refuse = [&] {
          if (group.rank() == 0) return;
          refuse_other_memory();
          check(!may_read_memory(::getpid()), "refused");
        };
        if (!allowed) refuse();
        check(are_two_rings_mapped(group), "two rings");
        both_ways(group);
        send_from_unmapped(group);
        if (allowed) refuse();
        send_from_unmapped(group);
        both_ways(group);
      },
      was_allowed);
}

TEST_CASE("blocking calls send messages from every rank to every other", "[mpi]") {
  check_ranks(3, [](ProcessGroup& group) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, kShort, kShort + 1, kLong}) {
      for (int from = 0; from < group.size(); ++from) {
        for (int to = 0; to < group.size(); ++to) {
          if (from == to) continue;
          const Elements sent = elements(from, 3, count);
          Elements got(count);
          if (group.rank() == from) group.send(sent, to, 3);
          if (group.rank() == to) group.recv(got, from, 3);
          check(group.rank() != to || got == sent, "a message of " + std::to_string(count));
        }
      }
      group.barrier();
    }
  });
}

TEST_CASE("blocking calls get the right message, whatever else is on its way") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr std::array<std::size_t, 6> kCounts = {0, 1, 5, 1000, kShort, kShort + 1};
    const int other = 1 - group.rank();
    for (int round = 0; round < 200; ++round) {
      swap_messages(group, round % 3, kCounts[static_cast<std::size_t>(round) % kCounts.size()]);
      if (round % 7 != 0) continue;
      Elements late(3);
      Work receive = group.irecv(late, other, 9);
      swap_messages(group, 1, 2);  // while a receive is open
      const Elements own = elements(group.rank(), 9, 3);
      Work send = group.isend(own, other, 9);
      send.wait();
      receive.wait();
      check(late == elements(other, 9, 3), "the late message");
    }
    for (int tag = 0; tag < 100; ++tag) {  // more than the receiver holds
      const Elements sent = elements(0, tag, kShort);
      Elements got(kShort);
      if (group.rank() == 0) group.send(sent, 1, tag);
      if (group.rank() == 1) group.recv(got, 0, tag);
      check(group.rank() == 0 || got == sent, "one of many");
    }
    for (int tag : {3, 2, 1, 0}) {  // rank 0 sends in the other order
      const Elements sent = elements(0, 3 - tag, 8);
      Elements got(8);
      if (group.rank() == 0) group.send(sent, 1, 3 - tag);
      if (group.rank() == 1) group.recv(got, 0, tag);
      check(group.rank() == 0 || got == elements(0, tag, 8), "a tag out of order");
    }
  });
}

TEST_CASE("messages that do not fit are named, even after many that did") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    for (int round = 0; round < 100; ++round) swap_messages(group, 4, 10);
    Elements data(11);
    if (group.rank() == 0) group.send(std::span(data).first(10), 1, 4);
    if (group.rank() == 1) group.recv(data, 0, 4);
    group.barrier();
  });
  check_failure(
      ended, ErrorKind::mismatch,
      {"rank 1 is at recv float32[11] from rank 0, tag 4, but rank 0 is at send float32[10] "
       "to rank 1, tag 4"});
}

TEST_CASE("tags are received in any order, the messages of one tag in order", "[mpi][tcp]") {
  check_ranks(2, [](ProcessGroup& group) {
    // Received in the reverse order of sending, two messages of each tag.
    const auto count = [](int tag) { return tag % 5 == 0 ? kLong / 10 : std::size_t(tag); };
    Mail mail(group);
    for (int i = 0; i < 40; ++i) {
      if (group.rank() == 0) mail.send(1, i, count(i));
      if (group.rank() == 1) mail.receive(0, 39 - i, count(39 - i));
    }
    mail.wait();
    for (const float turn : {1.0F, 2.0F, 3.0F}) {
      std::vector<float> data = {turn};
      if (group.rank() == 0) group.send(data, 1, -7);
    }
    for (const float turn : {1.0F, 2.0F, 3.0F}) {
      std::vector<float> data = {0};
      if (group.rank() == 1) group.recv(data, 0, -7);
      check(group.rank() != 1 || data[0] == turn, "messages of one tag changed places");
    }
  });
}

TEST_CASE("a receive stays open while the ranks make other calls", "[mpi]") {
  check_ranks(3, [](ProcessGroup& group) {
    Elements data(kLong);
    std::optional<Work> work;
    if (group.rank() == 1) work = group.irecv(data, 0);
    for (const std::size_t count : {std::size_t{3}, kLong}) {
      std::vector<std::int64_t> sum(count, group.rank());
      group.all_reduce(sum);
      check(sum.back() == group.size() * (group.size() - 1) / 2, "all_reduce");
    }
    const Elements sent = elements(0, 0, kLong);
    if (group.rank() == 0) group.send(sent, 1);
    if (group.rank() != 1) return group.barrier();
    work->wait();
    check(data == sent, "the message");
    group.barrier();
  });
}

TEST_CASE("a batch goes around a ring of any size", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  check_ranks(size, [](ProcessGroup& group) {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, kLong}) {
      const Elements there = elements(group.rank(), 1, count);
      const Elements back = elements(group.rank(), 2, count);
      Elements from_previous(count);
      Elements from_next(count);
      std::vector<P2POp> ops;
      if (group.size() > 1) {
        ops = {P2POp::recv(from_next, next, 2), P2POp::send(there, next, 1),
               P2POp::recv(from_previous, previous, 1), P2POp::send(back, previous, 2)};
      }
      const Work work = group.batch_isend_irecv(ops);
      work.wait();
      check(work.is_completed() && !work.error(), "the batch is not completed");
      if (group.size() == 1) continue;
      check(from_previous == elements(previous, 1, count), "around the ring");
      check(from_next == elements(next, 2, count), "around the ring, backwards");
    }
  });
}

TEST_CASE("a rank reaches a message that comes after more than it holds", "[mpi]") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr int kMany = 150;  // of 60 KiB
    constexpr std::size_t kCount = 15'000;
    if (group.rank() == 0) {
      Mail mail(group);
      for (int i = 0; i < kMany; ++i) mail.send(1, i, kCount);
      for (int i = 0; i < 500; ++i) mail.send(1, 1000, 0);
      mail.send(1, 999, 7);
      mail.wait();
    } else {
      Mail mail(group);
      mail.receive(0, 999, 7);
      mail.wait();
      for (int i = kMany; i-- > 0;) mail.receive(0, i, kCount);
      for (int i = 0; i < 500; ++i) mail.receive(0, 1000, 0);
      mail.wait();
    }
  });
}

TEST_CASE("a short message can be sent without a receive, however many were sent before") {
  check_ranks(2, [](ProcessGroup& group) {
    constexpr int kMany = 100;  // more than a rank holds for another
    Elements data(kShort);
    Elements nothing;
    if (group.rank() == 0) {
      for (int i = 0; i < kMany; ++i) group.send(data, 1);
      group.recv(nothing, 1);
      group.send(data, 1, 1);
    } else {
      for (int i = 0; i < kMany; ++i) group.recv(data, 0);
      group.send(nothing, 0);
    }
    group.barrier();
    if (group.rank() == 1) group.recv(data, 0, 1);
  });
}

TEST_CASE("messages up to 64 KiB need no receive, however many longer ones wait", "[tcp]") {
  check_ranks(2, [](ProcessGroup& group) {
    const int other = 1 - group.rank();
    Elements data((64 << 10) / sizeof(float));
    Mail mail(group);
    for (int i = 0; i < 30; ++i) mail.send(other, 1, kShort);  // more than a rank holds for another
    for (int i = 0; i < 10; ++i) group.send(data, other, 2);
    for (int i = 0; i < 10; ++i) group.recv(data, other, 2);
    for (int i = 0; i < 30; ++i) mail.receive(other, 1, kShort);
    mail.wait();
  });
}

TEST_CASE("a message may be waited for with or without a timeout", "[mpi]") {
  check_ranks(2, [](ProcessGroup& group) {
    const Elements sent = elements(0, 3, kLong);
    if (group.rank() == 0) {
      group.barrier();
      return group.send(sent, 1, 3);
    }
    Elements data(kLong);
    const Work work = group.irecv(data, 0, 3);
    try {
      work.wait(std::chrono::milliseconds(1));
      wrong("received before it was sent");
    } catch (const ddp::Error& error) {
      check(error.kind() == ErrorKind::timed_out, "the kind of an impatient wait's error");
    }
    check(!work.is_completed() && !work.error(), "an impatient wait ended the call");
    group.barrier();
    work.wait(std::chrono::minutes(1));
    check(data == sent, "the message");
  });
}

TEST_CASE("two threads send messages in two groups at once", "[mpi]") {
  check_ranks(3, [](ProcessGroup& first) {
    auto second = *first.split(0, -first.rank());
    std::thread other([&] { both_ways(second); });
    both_ways(first);
    other.join();
  });
}

TEST_CASE("begun messages are done even if their senders have left", "[mpi][tcp]") {
  check_ranks(3, [](ProcessGroup& group) {
    static const Elements data = elements(group.rank(), 0, kLong);
    if (group.rank() != 1) return static_cast<void>(group.isend(data, 1));
    Mail mail(group);
    for (int other = 0; other < group.size(); ++other) {
      if (other != 1) mail.receive(other, 0, kLong);
    }
    mail.wait();
  });
}

TEST_CASE("a message to itself is refused, and the group stays as it was", "[mpi]") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    Elements data(1);
    refused([&] { static_cast<void>(group.isend(data, group.rank())); });
    refused([&] { static_cast<void>(group.irecv(data, group.rank())); });
    both_ways(group);  // the group is as good as before
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "send to itself"));
    CHECK(contains(rank.output, "recv from itself"));
  }
}
