// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "agent/notify_message.h"
#include "agent/progress_monitor.h"
#include "agent/progress_pattern.h"
#include "agent/worker_env.h"
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

TEST_CASE("a line of output is progress if it matches, wherever it is cut") {
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

TEST_CASE("a pattern that refers back to a part of itself is refused, as it may take for ever") {
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

/// As a client of sd_notify does.
void notify(const std::string& variable, std::string_view text) {
  const std::string name = variable.substr(variable.find('@'));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin() + 1, name.end(), address.sun_path + 1);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  sendto(socket, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
  close(socket);
}

/// A node with one worker, which the test plays.
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
    variables = monitor->variables({});
    monitor->begin({{worker, 7}}, [this](bool quiet, auto) { news.push_back(quiet); });
  }

  void until_news(size_t count) {
    while (news.size() < count) io.run_one();
  }

  void until_status(const std::string& text) {
    while (monitor->statuses() != text) io.run_one();
  }
};

TEST_CASE("a worker that sleeps is quiet, until it or what it has started sends a heartbeat") {
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

TEST_CASE("a process that is no worker's says nothing") {
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
  const std::string name = node.variables[0].substr(node.variables[0].find('@'));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin() + 1, name.end(), address.sun_path + 1);
  char text[] = "STATUS=sent";
  iovec part = {text, sizeof text - 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_name = &address;
  header.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &ends[1], sizeof(int));
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  REQUIRE(sendmsg(socket, &header, 0) > 0);
  close(socket);
  close(ends[1]);
  node.until_status("rank 7: sent");
  char byte;
  CHECK(read(ends[0], &byte, 1) == 0);  // no other process has it
  close(ends[0]);
}

TEST_CASE("a worker that someone else supervises keeps its NOTIFY_SOCKET") {
  boost::asio::io_context io;
  const JobSpec job;
  launcher::Output output(io.get_executor());
  ProgressMonitor monitor(io.get_executor(), job, output);
  CHECK(monitor.variables({"NOTIFY_SOCKET=/run/systemd/notify"}).empty());
  CHECK(monitor.variables({"HOME=/"}).size() == 1);  // no limit was given
}

}  // namespace
}  // namespace ddprun::agent
