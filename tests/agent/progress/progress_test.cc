// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "agent/progress/notify_message.h"
#include "agent/progress/progress_monitor.h"
#include "agent/progress/progress_pattern.h"
#include "agent/worker/worker_env.h"
#include "base/fd.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a message of sd_notify's protocol is a heartbeat, a status, or neither") {
  const NotifyMessage both = parse_notify_message("WATCHDOG=1\nSTATUS=step 12\n");
  CHECK(both.is_heartbeat);
  CHECK(both.status == "step 12");
  CHECK(parse_notify_message("STATUS=a\nX=\nWATCHDOG=1").is_heartbeat);
  for (const char* text : {"", "\n", "READY=1", "WATCHDOG=trigger", "WATCHDOG=11", " WATCHDOG=1",
                           "STATUS", "=", "MAINPID=1\nBARRIER=1"}) {
    CHECK_FALSE(parse_notify_message(text).is_heartbeat);
    CHECK(parse_notify_message(text).status.empty());
  }
  const NotifyMessage hostile = parse_notify_message("STATUS=\x1b[2J" + std::string(4'000, 'x'));
  CHECK(hostile.status.starts_with("\\x1b[2J"));
  CHECK(hostile.status.size() < 100);
}

TEST_CASE("a matching line of output is progress, wherever it is cut") {
  const ProgressPattern pattern = must(ProgressPattern::parse("step [0-9]+"));
  PatternLines lines;
  CHECK_FALSE(lines.feed("epoch 1\nst", pattern));
  CHECK_FALSE(lines.feed("ep ", pattern));
  CHECK_FALSE(lines.feed("12", pattern));
  CHECK(lines.feed("\n", pattern));
  CHECK_FALSE(lines.feed("step\n", pattern));
  CHECK(lines.feed("10%\rstep 3\r", pattern));
  CHECK_FALSE(lines.feed(std::string(5'000, 'x') + "step 4\n", pattern));  // only its beginning
  CHECK(lines.feed("step 4" + std::string(5'000, 'x') + "\n", pattern));
  const auto refused = ProgressPattern::parse("step (");
  REQUIRE_FALSE(refused.has_value());
  CHECK(tests::contains(refused.error().message, "'step ('"));
}

TEST_CASE("a pattern with a back-reference is refused, as it may take forever") {
  for (const char* text : {"(a*)\\1b", "\\\\\\1", "[]\\1](x)\\9", "[[:digit:]\\1]+(x)\\1"}) {
    CAPTURE(text);
    const auto refused = ProgressPattern::parse(text);
    REQUIRE_FALSE(refused.has_value());
    CHECK(tests::contains(refused.error().message, "refers back"));
  }
  for (const char* text : {"step \\\\1", "[\\1]", "[^]\\1]x", "[[:digit:]\\1]", "\\.1", "\\0"}) {
    CAPTURE(text);
    CHECK(ProgressPattern::parse(text).has_value());
  }
  const auto endless = ProgressPattern::parse("[[:digit:");
  REQUIRE_FALSE(endless.has_value());
  CHECK_FALSE(tests::contains(endless.error().message, "refers back"));
}

/// A child that sleeps until it is killed, or runs `action` and ends.
class Process {
 public:
  template <class Action>
  explicit Process(Action action) : pid_(fork()) {
    if (pid_ != 0) return;
    action();
    _exit(0);
  }
  Process() : Process([] { pause(); }) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

/// The path in NOTIFY_SOCKET=...
sockaddr_un address_in(const std::string& variable) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  variable.substr(variable.find('/')).copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Sends a message as a client of sd_notify does. Returns false if it cannot.
bool notify(const std::string& variable, std::string_view text) {
  const sockaddr_un address = address_in(variable);
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  return sendto(socket.get(), text.data(), text.size(), 0,
                reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0;
}

/// Sends a message with a descriptor, and closes the descriptor here.
void send_descriptor(const std::string& variable, std::string_view text, Fd sent) {
  sockaddr_un address = address_in(variable);
  iovec part = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_name = &address;
  header.msg_namelen = sizeof address;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = sent.get();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  REQUIRE(sendmsg(socket.get(), &header, 0) > 0);
}

/// A connection whose last close() waits as long as `peer` does not read.
Fd slow_to_close(Fd& peer) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listener.get(), at, size) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  REQUIRE(getsockname(listener.get(), at, &size) == 0);
  Fd slow(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(slow.get(), at, size) == 0);
  peer = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger longest = {1, 60};
  REQUIRE(setsockopt(slow.get(), SOL_SOCKET, SO_LINGER, &longest, sizeof longest) == 0);
  const std::string data(64 << 10, 'x');
  while (send(slow.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  return slow;
}

/// A node with one worker: the test plays it.
struct Monitored {
  boost::asio::io_context io;
  JobSpec job;
  launcher::Output output{io.get_executor()};
  std::optional<ProgressMonitor> monitor;
  std::vector<std::string> variables;
  std::vector<bool> news;  // whether it is quiet

  explicit Monitored(pid_t worker) {
    job.hang_timeout = 500ms;
    monitor.emplace(io.get_executor(), job, output);
    monitor->open({});
    variables = monitor->variables();
    monitor->begin({{worker, 7}},
                   [this](auto what, auto) { news.push_back(what == HangWatch::News::quiet); });
  }

  void until_news(size_t count) {
    while (news.size() < count) io.run_one();
  }

  void until_status(const std::string& text) {
    while (monitor->statuses() != text) io.run_one();
  }
};

TEST_CASE("a worker that sleeps is quiet until it or its child sends a heartbeat") {
  const Process worker;
  Monitored node(getpid());
  REQUIRE(node.variables.size() == 2);
  CHECK(node.variables[1] == "WATCHDOG_USEC=500000");
  node.until_news(1);
  CHECK(node.news == std::vector{true});
  const Process helper([&] { notify(node.variables[0], "STATUS=step 3\nWATCHDOG=1"); });
  node.until_news(2);
  CHECK(node.news == std::vector{true, false});  // its message, or that it has begun
  node.until_status("rank 7: step 3");
  node.until_news(3);
  CHECK(node.news.back());
}

TEST_CASE("messages of a process that belongs to no worker are ignored") {
  const Process worker;
  Monitored node(worker.pid());
  notify(node.variables[0], "STATUS=mine\nWATCHDOG=1");
  notify(node.variables[0], std::string(10'000, 'x'));
  node.until_news(1);
  CHECK(node.news == std::vector{true});
  CHECK(node.monitor->statuses().empty());
}

TEST_CASE("a descriptor that comes with a message is closed: systemd-notify waits for that") {
  const Process worker;
  Monitored node(getpid());
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd reader(ends[0]);
  send_descriptor(node.variables[0], "STATUS=sent", Fd(ends[1]));
  node.until_status("rank 7: sent");
  char byte;
  CHECK(read(reader.get(), &byte, 1) == 0);  // no other process has it
}

TEST_CASE("a descriptor that takes long to close does not delay the event loop") {
  const Process worker;
  Monitored node(getpid());
  Fd peer;
  send_descriptor(node.variables[0], "STATUS=slow", slow_to_close(peer));
  bool has_run = false;
  boost::asio::post(node.io, [&] { has_run = true; });
  node.until_news(1);  // on a timer, while the other end does not read
  CHECK(has_run);
  CHECK(node.monitor->statuses().empty());
  peer.reset();
  node.until_status("rank 7: slow");
}

TEST_CASE("another user cannot send to the socket for heartbeats, and its owner removes it") {
  Monitored node(getpid());
  const std::string path = address_in(node.variables[0]).sun_path;
  CHECK(notify(node.variables[0], "STATUS=mine"));
  if (geteuid() == 0) {
    constexpr uid_t kOther = 54'321;
    const pid_t other = fork();
    if (other == 0) {
      if (syscall(SYS_setresuid, kOther, kOther, kOther) != 0) _exit(2);
      _exit(notify(node.variables[0], "WATCHDOG=1") ? 1 : 0);
    }
    int status = 0;
    waitpid(other, &status, 0);
    CHECK(status == 0);
  }
  node.monitor.reset();
  CHECK(access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a worker with another supervisor keeps its NOTIFY_SOCKET") {
  boost::asio::io_context io;
  const JobSpec job;
  launcher::Output output(io.get_executor());
  ProgressMonitor monitor(io.get_executor(), job, output);
  monitor.open({"NOTIFY_SOCKET=/run/systemd/notify"});
  CHECK(monitor.variables().empty());
  monitor.open({"HOME=/"});
  CHECK(monitor.variables().size() == 1);  // no limit was given
}

}  // namespace
}  // namespace ddprun::agent
