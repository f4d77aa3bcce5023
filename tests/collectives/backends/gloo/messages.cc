// SPDX-License-Identifier: Apache-2.0
// One rank that sends messages to others: messages SCENARIO [TIMEOUT_MS].

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <ddp/tcp_store.h>
#include <list>
#include <optional>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "base/fd.h"
#include "tests/collectives/in_rank.h"

namespace {

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::Work;
using Elements = std::vector<float>;

constexpr std::size_t kShort = (64 << 10) / sizeof(float);  // the longest that is sent unasked
constexpr std::size_t kLong = 700'001;                      // some pieces

/// What the message with this tag has, from this rank.
Elements elements(int rank, int tag, std::size_t count) {
  Elements all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank * 1009 + tag * 17)) % 4096);
  }
  return all;
}

/// Begun receives and sends, and what they move.
class Mail {
 public:
  explicit Mail(ProcessGroup& group) : group_(group) {}

  void send(int to, int tag, std::size_t count) {
    const Elements& data = sent_.emplace_back(elements(group_.rank(), tag, count));
    works_.push_back(group_.isend(data, to, tag));
  }
  void receive(int from, int tag, std::size_t count) {
    Letter& letter = received_.emplace_back(Letter{from, tag, Elements(count, -1)});
    works_.push_back(group_.irecv(letter.data, from, tag));
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
  struct Letter {
    int from;
    int tag;
    Elements data;
  };

  ProcessGroup& group_;
  std::list<Elements> sent_;
  std::list<Letter> received_;
  std::vector<Work> works_;
};

/// Everyone with everyone, in both directions, whichever half comes first.
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

/// Every rank to every other, one message at a time, by calls that block.
void in_turn(ProcessGroup& group) {
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
}

/// Tags are received in the reverse of the order in which they are sent, two messages of each.
void tags(ProcessGroup& group) {
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
}

/// A receive is open while all ranks make calls, until its sender has made them, too.
void beside(ProcessGroup& group) {
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
}

void ring(ProcessGroup& group) {
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
}

/// More short messages than a rank holds for another lie before the one it asks for first.
void flood(ProcessGroup& group) {
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
}

/// An impatient wait ends nothing, and the message comes when its sender does.
void late(ProcessGroup& group) {
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
}

/// Two groups, each used by a thread of its own, with the same tags.
void threads(ProcessGroup& first) {
  auto second = *first.split(0, -first.rank());
  std::thread other([&] { both_ways(second); });
  both_ways(first);
  other.join();
}

/// Begun messages are done although their senders leave.
void leave(ProcessGroup& group) {
  static const Elements data = elements(group.rank(), 0, kLong);
  if (group.rank() != 1) return static_cast<void>(group.isend(data, 1));
  Mail mail(group);
  for (int other = 0; other < group.size(); ++other) {
    if (other != 1) mail.receive(other, 0, kLong);
  }
  mail.wait();
}

void refuse_self(ProcessGroup& group) {
  Elements data(1);
  for (const bool sends : {true, false}) {
    try {
      static_cast<void>(sends ? group.isend(data, group.rank()) : group.irecv(data, group.rank()));
      wrong("a message to itself");
    } catch (const ddp::Error& error) {
      check(error.kind() == ErrorKind::usage, error.what());
      std::printf("%s\n", error.what());
    }
  }
  both_ways(group);  // the group is as good as before
}

namespace asio = boost::asio;

/// Where rank 1 listens for connections.
asio::ip::tcp::endpoint door() {
  ddp::TcpStore store(std::getenv("MASTER_ADDR"),
                      static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
  const std::string told = store.get("ddp/0/joined/1");
  const auto port = static_cast<std::uint16_t>(std::atoi(told.c_str() + told.find(' ')));
  return {asio::ip::make_address(told.substr(0, told.find(' '))), port};
}

/// Strangers come to rank 1, and say what is no message of the group.
void strangers(ProcessGroup& group) {
  group.barrier();
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> sockets;
  for (const std::string& words :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0'),
        std::string(100, '\xff'), std::string("\1\2\1\0\0\0\0\0", 8),
        std::string("\1\7\1\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24)}) {
    auto& socket = sockets.emplace_back(context);
    socket.connect(door());
    boost::system::error_code refused;  // it need not read to the end
    asio::write(socket, asio::buffer(words), refused);
  }
  both_ways(group);
}

/// Strangers who say nothing crowd rank 1: the first have to go for those who come after them.
void crowd(ProcessGroup& group) {
  constexpr std::size_t kComing = 300;
  const std::size_t staying = 64 + 2 * static_cast<std::size_t>(group.size());
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> sockets;
  if (group.rank() == 0) {
    const auto there = door();
    while (sockets.size() < kComing) sockets.emplace_back(context).connect(there);
    for (std::size_t i = 0; i < kComing - staying; ++i) {
      pollfd end{sockets[i].native_handle(), POLLIN, 0};
      check(::poll(&end, 1, 60'000) == 1, "stranger " + std::to_string(i) + " is still there");
    }
  }
  group.barrier();
  both_ways(group);
}

/// Rank 1 ends, or leaves, or throws, while others wait for messages with it.
void lose(ProcessGroup& group, const std::string& how) {
  const Elements data(kLong);
  static Elements place(kLong);  // until the group is gone, which may use it
  group.barrier();
  std::vector<Work> works;
  if (group.rank() == 1) {
    if (how == "throw") works = {group.irecv(place, 0, 9)};
    group.barrier();
    if (how == "killed") ::raise(SIGKILL);
    if (how == "throw") throw std::runtime_error("thrown by the program");
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

/// Rank 1 announces a message and ends before rank 0 asks for it.
void lose_announced(ProcessGroup& group) {
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
}

/// Rank 1 receives none of the messages that rank 0 sends, with many a tag.
void overrun(ProcessGroup& group) {
  constexpr int kMany = (1 << 17) + 1;
  std::vector<P2POp> ops;
  if (group.rank() == 0) {
    for (int i = 0; i < kMany; ++i) ops.push_back(P2POp::send(std::span<float>(), 1, i));
  }
  group.batch_send_recv(ops);
  group.barrier();
}

/// Rank 0 has no descriptor left for a message.
void descriptors(ProcessGroup& group) {
  group.barrier();
  if (group.rank() == 0) {
    const ddprun::Fd next(::dup(0));
    const rlimit none = {static_cast<rlim_t>(next.get()), static_cast<rlim_t>(next.get())};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  both_ways(group);
}

/// Rank 1 expects another message than rank 0 sends.
void differ(ProcessGroup& group, const std::string& how) {
  const std::size_t count = how == "count-long" ? kLong : 100;
  std::vector<double> doubles(count);
  Elements data(count);
  Elements other(how == "type" ? count : count + 1);
  if (group.rank() == 0) how == "type" ? group.send(doubles, 1, 5) : group.send(data, 1, 5);
  if (group.rank() == 1) group.recv(other, 0, how == "tag" ? 6 : 5);
  group.barrier();
}

void run(ProcessGroup group, const std::string& scenario) {
  if (scenario == "both-ways") return both_ways(group);
  if (scenario == "in-turn") return in_turn(group);
  if (scenario == "tags") return tags(group);
  if (scenario == "beside") return beside(group);
  if (scenario == "ring") return ring(group);
  if (scenario == "flood") return flood(group);
  if (scenario == "late") return late(group);
  if (scenario == "threads") return threads(group);
  if (scenario == "leave") return leave(group);
  if (scenario == "self") return refuse_self(group);
  if (scenario == "strangers") return strangers(group);
  if (scenario == "crowd") return crowd(group);
  if (scenario == "lose-announced") return lose_announced(group);
  if (scenario == "overrun") return overrun(group);
  if (scenario == "descriptors") return descriptors(group);
  if (scenario.starts_with("lose-")) return lose(group, scenario.substr(5));
  if (scenario.starts_with("differ-")) return differ(group, scenario.substr(7));
  wrong("no scenario " + scenario);
}

}  // namespace

int main(int argc, char** argv) {
  return exit_code_of([&] {
    const auto timeout = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 60'000);
    run(ddp::init_process_group({.backend = backend_of_test(), .timeout = timeout}),
        argc > 1 ? argv[1] : "both-ways");
  });
}
