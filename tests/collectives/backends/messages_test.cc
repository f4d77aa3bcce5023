// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>
#include <poll.h>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "base/fd.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/shm/layout.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::Work;
namespace asio = boost::asio;

namespace {

using Elements = std::vector<float>;

constexpr std::size_t kShort = (64 << 10) / sizeof(float);  // the longest that is sent unasked
constexpr std::size_t kLong = 700'001;                      // some pieces

/// The content of the message with this tag from this rank.
Elements elements(int rank, int tag, std::size_t count) {
  Elements all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank * 1009 + tag * 17)) % 4096);
  }
  return all;
}

/// Begun receives and sends, and the data they move.
class Mail {
 public:
  explicit Mail(ProcessGroup& group) : group_(group) {}

  void send(int to, int tag, std::size_t count) {
    const Elements& data = sent_.emplace_back(elements(group_.rank(), tag, count));
    works_.push_back(group_.isend(data, to, tag));
  }
  void receive(int from, int tag, std::size_t count) {
    Received& message = received_.emplace_back(Received{from, tag, Elements(count, -1)});
    works_.push_back(group_.irecv(message.data, from, tag));
  }

  /// From the last to the first.
  void wait() {
    for (std::size_t i = works_.size(); i-- > 0;) {
      works_[i].wait();
      check(works_[i].is_completed() && !works_[i].error(), "waited for, and not completed");
    }
    for (const auto& [from, tag, data] : received_) {
      check(data == elements(from, tag, data.size()),
            "tag " + std::to_string(tag) + " from rank " + std::to_string(from));
    }
    works_.clear();
    received_.clear();
    sent_.clear();
  }

 private:
  struct Received {
    int from;
    int tag;
    Elements data;
  };

  ProcessGroup& group_;
  std::list<Elements> sent_;
  std::list<Received> received_;
  std::vector<Work> works_;
};

/// All with all, in both directions, whichever half is begun first.
void both_ways(ProcessGroup& group) {
  for (const bool sends_first : {true, false}) {
    Mail mail(group);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kShort, kShort + 1, kLong}) {
      const auto send = [&](int other) { mail.send(other, 4, count); };
      const auto receive = [&](int other) { mail.receive(other, 4, count); };
      for (int other = 0; other < group.size(); ++other) {
        if (other == group.rank()) continue;
        sends_first ? send(other) : receive(other);
        sends_first ? receive(other) : send(other);
      }
    }
    mail.wait();
  }
  group.barrier();
}

/// Where rank 1 listens for connections, and the token that it requires there.
std::pair<asio::ip::tcp::endpoint, std::uint64_t> listener() {
  std::istringstream text(job_store()->get("ddp/0/joined/1"));
  std::string address;
  std::uint16_t port = 0;
  std::uint64_t token = 0;
  text >> address >> port >> token;
  return {{asio::ip::make_address(address), port}, token};
}

asio::ip::tcp::endpoint listen_address() {
  return listener().first;
}

/// Of this process's mappings of memory that the ranks share.
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

enum class Exit { killed, throws, leaves };

/// Rank 1 exits so while the others have messages with it under way, which all fail alike.
void lose_rank_1(ProcessGroup& group, Exit how) {
  const Elements data(kLong);
  static Elements place(kLong);  // until the group is gone, which may use it
  group.barrier();
  std::vector<Work> works;
  if (group.rank() == 1) {
    if (how == Exit::throws) works = {group.irecv(place, 0, 9)};
    group.barrier();
    if (how == Exit::killed) ::raise(SIGKILL);
    if (how == Exit::throws) throw std::runtime_error("thrown by the program");
    return;
  }
  works.push_back(group.irecv(place, 1, 5));
  works.push_back(group.isend(data, 1, 6));
  works.push_back(
      group.batch_isend_irecv(std::vector{P2POp::recv(place, 1, 7), P2POp::send(data, 1, 8)}));
  group.barrier();
  std::optional<std::string> first;
  for (const Work& work : works) {
    try {
      work.wait();
      wrong("a message without its receiver");
    } catch (const ddp::Error& error) {
      check(work.is_completed() && work.error(), "failed, and not completed");
      check(work.error()->what() == std::string(error.what()), "another error than was thrown");
      check(first.value_or(error.what()) == error.what(), "another error than the first");
      first = error.what();
    }
  }
  group.barrier();
}

struct Mismatch {
  void (*send)(ProcessGroup& group);  ///< by rank 0
  void (*recv)(ProcessGroup& group);  ///< by rank 1
  std::string sent;
  std::string expected;
};

template <class T>
void send_to_1(ProcessGroup& group, std::size_t count) {
  const std::vector<T> data(count);
  group.send(data, 1, 5);
}

void recv_from_0(ProcessGroup& group, std::size_t count, int tag) {
  Elements data(count);
  group.recv(data, 0, tag);
}

/// Messages go by the connection until their ring is mapped.
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

const Mismatch kMismatches[] = {
    {[](ProcessGroup& group) { send_to_1<double>(group, 100); },
     [](ProcessGroup& group) { recv_from_0(group, 100, 5); }, "send float64[100] to rank 1, tag 5",
     "recv float32[100] from rank 0, tag 5"},
    {[](ProcessGroup& group) { send_to_1<float>(group, 100); },
     [](ProcessGroup& group) { recv_from_0(group, 101, 5); }, "send float32[100] to rank 1, tag 5",
     "recv float32[101] from rank 0, tag 5"},
    {[](ProcessGroup& group) { send_to_1<float>(group, kLong); },
     [](ProcessGroup& group) { recv_from_0(group, kLong + 1, 5); },
     "send float32[700001] to rank 1, tag 5", "recv float32[700002] from rank 0, tag 5"},
};

}  // namespace

TEST_CASE("messages go both ways at once, of any length, whichever side begins first",
          "[mpi][tcp][nodes]") {
  const int size = GENERATE(2, 4);
  check_ranks(size, [](ProcessGroup& group) { both_ways(group); });
}

TEST_CASE("messages of ranks that share memory go through it") {
  check_ranks(2, [](ProcessGroup& group) { check(are_two_rings_mapped(group), "two rings"); });
}

TEST_CASE("a rank that may map no ring gets its messages through its connection") {
  check_ranks(2, [](ProcessGroup& group) {
    const std::size_t before = shared_bytes();
    group.barrier();
    if (group.rank() == 1) give_up_shared_memory();  // it makes the rings that it reads
    both_ways(group);
    check(shared_bytes() <= before + sizeof(ddp::internal::ShmRingMemory), "at most one ring");
  });
}

TEST_CASE("messages go from every rank to every other by calls that block", "[mpi]") {
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

TEST_CASE("tags are received in any order, the messages of one tag in theirs", "[mpi][tcp]") {
  check_ranks(2, [](ProcessGroup& group) {
    // Received in the reverse of the order in which they are sent, two messages of each.
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

TEST_CASE("a receive is open while the ranks make other calls", "[mpi]") {
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

TEST_CASE("a rank reaches the message it asks for behind more than it holds", "[mpi]") {
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

TEST_CASE("a short message needs no receive to be sent, however many were sent before") {
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

TEST_CASE("a message may be waited for with a time-out or without", "[mpi]") {
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

TEST_CASE("messages that were begun are done when their senders have left", "[mpi][tcp]") {
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

TEST_CASE("bytes on a foreign connection disturb no message") {
  check_ranks(3, [](ProcessGroup& group) {
    group.barrier();
    asio::io_context context;
    std::vector<asio::ip::tcp::socket> sockets;
    for (const std::string& bytes :
         {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0'),
          std::string(100, '\xff'), std::string("\1\2\1\0\0\0\0\0", 8),
          std::string("\1\7\1\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24)}) {
      auto& socket = sockets.emplace_back(context);
      socket.connect(listen_address());
      boost::system::error_code refused;  // it need not read to the end
      asio::write(socket, asio::buffer(bytes), refused);
    }
    both_ways(group);
  });
}

TEST_CASE("a rank says hello once: messages on a second connection in its name are not taken") {
  check_ranks(2, [](ProcessGroup& group) {
    const bool sends = group.rank() == 0;
    const auto message = [&](int tag) {
      Mail mail(group);
      sends ? mail.send(1, tag, 1) : mail.receive(0, tag, 1);
      mail.wait();
    };
    message(1);
    if (sends) {
      const auto [there, token] = listener();
      using ddp::internal::Frame;
      const Frame hello{.kind = Frame::Kind::hello, .tag = group.rank(), .number = token};
      asio::io_context context;
      asio::ip::tcp::socket socket(context);
      socket.connect(there);
      asio::write(socket, asio::buffer(&hello, sizeof hello));
      pollfd end{socket.native_handle(), POLLIN, 0};
      check(::poll(&end, 1, 40'000) == 1, "a second hello is accepted");
    }
    message(2);
    group.barrier();
  });
}

TEST_CASE("silent foreign connections are limited in number, and keep no rank out") {
  check_ranks(3, [](ProcessGroup& group) {
    // The oldest have to go for those who come after them.
    constexpr std::size_t kComing = 300;
    const std::size_t staying = 64 + 3 * static_cast<std::size_t>(group.size());
    asio::io_context context;
    std::vector<asio::ip::tcp::socket> sockets;
    if (group.rank() == 0) {
      const auto there = listen_address();
      while (sockets.size() < kComing) sockets.emplace_back(context).connect(there);
      for (std::size_t i = 0; i < kComing - staying; ++i) {
        pollfd end{sockets[i].native_handle(), POLLIN, 0};
        check(::poll(&end, 1, 60'000) == 1, "stranger " + std::to_string(i) + " is still there");
      }
    }
    group.barrier();
    both_ways(group);
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

TEST_CASE("every open message with a rank that ends fails with the same error, which names it",
          "[tcp]") {
  const auto [how, code] =
      GENERATE(table<Exit, int>({{Exit::killed, 128 + SIGKILL}, {Exit::throws, 2}}));
  const int size = GENERATE(2, 3);
  auto ended =
      run_ranks(size, [](ProcessGroup& group, Exit exit) { lose_rank_1(group, exit); }, how);
  CHECK(ended[1].code == code);
  ended.erase(ended.begin() + 1);
  check_failure(ended, ErrorKind::peer_lost, {"lost rank 1 in "});
}

TEST_CASE("a message with a rank that left the group fails with that reason") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) { lose_rank_1(group, Exit::leaves); });
  check_failure({ended[0]}, ErrorKind::mismatch, {"but rank 1 is at the group's end"});
}

TEST_CASE("a receive fails whose announced message is of a rank that ended") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::int64_t process = ::getpid();
    Elements data(kLong);
    if (group.rank() == 1) {
      static_cast<void>(group.isend(data, 0, 5));
      group.send(std::span(&process, 1), 0, 6);
      group.recv(std::span(&process, 1), 0, 7);  // rank 0 waits for nothing else when we end
      ::_exit(0);
    }
    group.recv(std::span(&process, 1), 1, 6);
    const ddprun::Fd other(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    pollfd end{.fd = other.get(), .events = POLLIN, .revents = 0};
    group.send(std::span(&process, 1), 1, 7);
    ::poll(&end, 1, -1);
    group.recv(data, 1, 5);
  });
  check_failure({ended[0]}, ErrorKind::peer_lost,
                {"lost rank 1 in recv float32[700001] from rank 1, tag 5"});
}

TEST_CASE("a rank that receives more messages than it holds reports it, and the group fails") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    constexpr int kMany = (1 << 17) + 1;
    std::vector<P2POp> ops;
    if (group.rank() == 0) {
      for (int i = 0; i < kMany; ++i) ops.push_back(P2POp::send(std::span<float>(), 1, i));
    }
    group.batch_send_recv(ops);
    group.barrier();
  });
  check_failure(ended, ErrorKind::mismatch,
                {"rank 1 holds 131072 messages of rank 0 that it does not receive, "
                 "and one more comes, tag 131072"});
}

#ifndef __SANITIZE_ADDRESS__  // its companion for types looks at objects through a pipe
TEST_CASE("a rank without descriptors for messages reports it, and the others lose it at once") {
  const Words command = rank_command([](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 0) {
      const ddprun::Fd next(::dup(0));
      const rlimit none = {static_cast<rlim_t>(next.get()), static_cast<rlim_t>(next.get())};
      ::setrlimit(RLIMIT_NOFILE, &none);
    }
    group.barrier();
    both_ways(group);
  });
  const auto ended = run_ranks(2, command, {{"DDP_TEST_TIMEOUT_MS", "600000"}});
  INFO(ended[0].output << ended[1].output);
  CHECK(contains(ended[0].output, "rank 0 "));
  CHECK(contains(ended[0].output, "Too many open files"));
  CHECK(contains(ended[1].output, "rank 0 "));
}
#endif

TEST_CASE("a message of another type or count than its receive fails on both sides") {
  const int number = GENERATE(range(0, static_cast<int>(std::size(kMismatches))));
  const auto& [send, recv, sent, expected] = kMismatches[number];
  const auto ended = run_ranks(
      3,
      [](ProcessGroup& group, int which) {
        if (group.rank() == 0) kMismatches[which].send(group);
        if (group.rank() == 1) kMismatches[which].recv(group);
        group.barrier();
      },
      number);
  check_failure(ended, ErrorKind::mismatch,
                {"rank 1 is at " + expected + ", but rank 0 is at " + sent});
}

TEST_CASE("a receive that times out names the message that came instead") {
  const LiveStore store;
  const Words command = rank_command([](ProcessGroup& group) {
    if (group.rank() == 0) send_to_1<float>(group, 100);
    if (group.rank() == 1) recv_from_0(group, 101, 6);
    group.barrier();
  });
  Variables impatient = kImpatient;
  impatient.merge(place(1, 2, store.port()));
  Rank sender(command, place(0, 2, store.port()));
  Rank receiver(command, impatient);
  check_failure(
      {sender.wait(), receiver.wait()}, ErrorKind::timed_out,
      {"rank 1 timed out after 1500 ms waiting for rank 0 in recv float32[101] from rank 0, "
       "tag 6; rank 0 has sent tag 5"});
}
