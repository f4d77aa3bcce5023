// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/file_timers.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;
using Time = TimerRequest::Time;

/// A folder of the test's own.
class Folder {
 public:
  Folder() {
    path = std::filesystem::temp_directory_path() / "ddprun_timers_XXXXXX";
    REQUIRE(mkdtemp(path.data()) != nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

/// A child that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid(fork()) {
    if (pid == 0) {
      pause();
      _exit(0);
    }
  }
  ~Sleeper() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  /// The signal that ended it, once that has happened; 0: it runs.
  int ended_by() const {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == 0 ? 0 : info.si_status;
  }
  pid_t pid;
};

/// A request as PyTorch's FileTimerClient writes it.
std::string request(pid_t pid, const std::string& scope, const std::string& end, int signal) {
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + scope +
         R"(", "expiration_time": )" + end + R"(, "signal": )" + std::to_string(signal) + "}\n";
}

/// Opens the pipe as the client does: without waiting for a reader.
void send(const std::string& path, const std::string& text) {
  const int pipe = open(path.c_str(), O_WRONLY | O_NONBLOCK);
  REQUIRE(pipe >= 0);
  REQUIRE(write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(pipe);
}

template <class Condition>
void run_until(boost::asio::io_context& io, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {  // the end of a process causes no event here
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    io.run_one_for(10ms);
    io.restart();
  }
}

/// Opens the pipe; returns its path from the workers' environment.
std::string opened(FileTimers& timers, const std::vector<std::string>& environment,
                   const std::string& folder) {
  timers.open(environment, folder);
  const std::vector<std::string>& variables = timers.variables();
  REQUIRE(variables.size() == 1);
  REQUIRE(variables.front().starts_with("TORCHELASTIC_TIMER_FILE="));
  return variables.front().substr(variables.front().find('=') + 1);
}

const std::vector<std::string> kEnabled = {"TORCHELASTIC_ENABLE_FILE_TIMER=1"};

}  // namespace

TEST_CASE("a request is a line of JSON with all its fields") {
  const auto acquired = parse_timer_request(request(7, "a/b", "1.5", 9));
  REQUIRE(acquired.has_value());
  CHECK(acquired->pid == 7);
  CHECK(acquired->scope == "a/b");
  CHECK(acquired->end == Time(1500ms));
  CHECK(acquired->signal == 9);
  CHECK_FALSE(parse_timer_request(request(7, "a", "-1", 0))->end.has_value());
  CHECK(parse_timer_request(request(7, "a", "1e300", 9))->end > Time(24h * 365 * 200));

  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), std::string("null"),
        request(0, "a", "1", 9), request(-1, "a", "1", 9), request(7, "a", "\"1\"", 9),
        std::string(R"({"pid": 7.5, "scope_id": "a", "expiration_time": 1, "signal": 9})"),
        std::string(R"({"pid": 1e30, "scope_id": "a", "expiration_time": 1, "signal": 9})"),
        std::string(R"({"pid": 7, "scope_id": 3, "expiration_time": 1, "signal": 9})"),
        request(7, std::string(kLongestRequest, 'x'), "1", 9)}) {
    INFO(text);
    CHECK_FALSE(parse_timer_request(text).has_value());
  }
}

TEST_CASE("a process's first timer with a signal counts, and ends its others") {
  TimerTable table;
  const auto at = [](int second) { return Time(std::chrono::seconds(second)); };
  table.add({7, "late", at(30), 9});
  table.add({7, "second", at(20), 15});
  table.add({7, "first", at(10), 0});
  table.add({8, "other", at(40), 9});
  CHECK(table.next() == at(10));
  CHECK(table.take_expired(at(5)).empty());

  const auto expired = table.take_expired(at(30));
  REQUIRE(expired.size() == 1);
  CHECK(expired.front().scope == "second");
  CHECK(table.next() == at(40));
  table.add({8, "other", std::nullopt, 0});
  CHECK_FALSE(table.next().has_value());
}

TEST_CASE("the number of timers is limited") {
  TimerTable table;
  for (int i = 0; i < 20'000; ++i) table.add({7, std::to_string(i), Time(1s), 9});
  table.add({8, "one too many", Time(1s), 9});
  const auto expired = table.take_expired(Time(2s));
  REQUIRE(expired.size() == 1);
  CHECK(expired.front().pid == 7);
}

TEST_CASE("a worker gets its timer's signal when the timer ends, unless it released the timer") {
  const Folder folder;
  boost::asio::io_context io;
  FileTimers timers(io.get_executor());
  const std::string path = opened(timers, kEnabled, folder.path);
  const Sleeper late, released;
  timers.begin({{late.pid, 3}, {released.pid, 4}});
  send(path, request(released.pid, "a", "1.5", 0) + request(late.pid, "b", "9e9", SIGKILL));
  send(path, request(released.pid, "a", "9e9", SIGKILL) + request(released.pid, "a", "-1", 0));
  send(path, request(late.pid, "train", "1.5", SIGKILL));

  run_until(io, [&] { return late.ended_by() != 0; });

  CHECK(late.ended_by() == SIGKILL);
  CHECK(timers.cause(late.pid) == "its timer 'train' expired (TORCHELASTIC_TIMER_FILE)");
  CHECK(released.ended_by() == 0);
  CHECK(timers.cause(released.pid).empty());
}

TEST_CASE("only workers and their children are signalled") {
  const Folder folder;
  boost::asio::io_context io;
  FileTimers timers(io.get_executor());
  const std::string path = opened(timers, kEnabled, folder.path);
  const Sleeper other, ended, child;
  timers.begin({{ended.pid, 0}, {getpid(), 1}});
  timers.worker_ended(ended.pid);
  send(path, request(1, "a", "1", SIGKILL) + request(child.pid, "c", "2", SIGUSR1));
  run_until(io, [&] { return child.ended_by() != 0; });
  CHECK(child.ended_by() == SIGUSR1);

  timers.begin({{ended.pid, 0}});
  timers.worker_ended(ended.pid);
  const Sleeper last;
  timers.begin({{last.pid, 0}});
  send(path, request(other.pid, "a", "1", SIGKILL) + request(ended.pid, "a", "1", SIGKILL) +
                 request(last.pid, "c", "2", SIGUSR1));
  run_until(io, [&] { return last.ended_by() != 0; });
  CHECK(other.ended_by() == 0);
  CHECK(ended.ended_by() == 0);
}

TEST_CASE("cut, invalid or too long lines do not hurt the next one") {
  const Folder folder;
  boost::asio::io_context io;
  FileTimers timers(io.get_executor());
  const std::string path = opened(timers, kEnabled, folder.path);
  const Sleeper worker;
  timers.begin({{worker.pid, 0}});
  send(path, "\n\nnonsense\n" + std::string(20'000, 'x'));
  const std::string line = request(worker.pid, "a", "1", SIGKILL);
  send(path, "\n" + line.substr(0, 20));
  send(path, line.substr(20));
  run_until(io, [&] { return worker.ended_by() != 0; });
  CHECK(worker.ended_by() == SIGKILL);
}

TEST_CASE("the pipe is where the user wants it, only for this user, and is removed") {
  const Folder folder;
  const std::string path = folder.path + "/mine";
  const std::vector<std::string> environment = {kEnabled.front(),
                                                "TORCHELASTIC_TIMER_FILE=" + path};
  boost::asio::io_context io;
  REQUIRE(mkfifo(path.c_str(), 0666) == 0);  // an earlier job has left it
  {
    FileTimers timers(io.get_executor());
    timers.open(environment, "/nowhere");
    CHECK(timers.variables().empty());  // the workers inherit it
    struct stat about{};
    REQUIRE(stat(path.c_str(), &about) == 0);
    CHECK(S_ISFIFO(about.st_mode));
    CHECK((about.st_mode & 0777) == 0600);
  }
  CHECK_FALSE(std::filesystem::exists(path));

  FileTimers none(io.get_executor());
  none.open({}, folder.path);
  none.open({"TORCHELASTIC_ENABLE_FILE_TIMER=0"}, folder.path);
  CHECK(none.variables().empty());
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a file that is no pipe is never removed") {
  const Folder folder;
  const std::string path = folder.path + "/data";
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  boost::asio::io_context io;
  {
    FileTimers timers(io.get_executor());
    timers.open({kEnabled.front(), "TORCHELASTIC_TIMER_FILE=" + path}, "");
    CHECK(timers.variables().empty());
  }
  CHECK(std::filesystem::is_regular_file(path));
}

}  // namespace ddprun::agent
