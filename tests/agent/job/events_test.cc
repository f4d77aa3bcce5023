// SPDX-License-Identifier: Apache-2.0
#include "agent/job/events.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/paths.h"

using namespace ddprun;
using agent::Events;
using nlohmann::json;
using tests::source_path;

namespace {

/// No test waits so long.
constexpr std::chrono::minutes kDeadline{1};

/// The name of a file that does not exist yet and is removed at the end.
class ScratchFile {
 public:
  ScratchFile() {
    char name[] = "/tmp/ddprun-events-XXXXXX";
    if (mkdtemp(name) == nullptr) FAIL("no temporary directory");
    directory_ = name;
  }
  ~ScratchFile() { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/events.jsonl"; }

  std::vector<json> lines() const {
    std::vector<json> all;
    std::ifstream file(path());
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
    return all;
  }

 private:
  std::string directory_;
};

agent::JobSpec training() {
  agent::JobSpec job;
  job.program = "./train";
  job.command = {"./train", "--name", "a \"b\"\n\xff"};
  job.local_size = 2;
  job.max_restarts = 1;
  return job;
}

}  // namespace

TEST_CASE("each event is one line of JSON, in the order of the events") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  rendezvous::Layout layout;
  layout.round = 3;
  layout.local_size = layout.world_size = 2;

  events.job_started(training());
  events.round_ready(layout, "127.0.0.1", 41237);
  events.worker_started(3, 1, 1, 4711);
  events.worker_ended(3, 1, 1, 4711, launcher::ExitStatus(SIGKILL), 1.5, "Slow: wait");
  events.round_stopping(3, SIGTERM);
  events.hang(3, "no rank has made progress\nrank 1 is");
  events.restart(3, 1, 1);
  events.signal_received(SIGINT);
  events.job_ended(agent::Interrupted{SIGINT}, 130);

  events.finish(kDeadline);
  const std::vector<json> lines = file.lines();
  std::vector<std::string> names;
  for (const json& line : lines) names.push_back(line["event"]);
  CHECK(names == std::vector<std::string>{"job_started", "round_ready", "worker_started",
                                          "worker_ended", "round_stopping", "hang", "restart",
                                          "signal_received", "job_ended"});

  CHECK(lines[0]["command"] == json({"./train", "--name", "a \"b\"\n\xef\xbf\xbd"}));
  CHECK(lines[1]["master_port"] == 41237);
  CHECK(lines[2]["pid"] == 4711);
  CHECK(lines[3]["code"] == 137);
  CHECK(lines[3]["signal"] == "SIGKILL");
  CHECK(lines[3]["seconds"] == 1.5);
  CHECK(lines[3]["exception"] == "Slow: wait");
  CHECK(lines[5]["round"] == 3);
  CHECK(lines[5]["report"] == "no rank has made progress\nrank 1 is");
  CHECK(lines[6]["restarts"] == 1);
  CHECK(lines[7]["signal"] == "SIGINT");
  CHECK(lines[8]["outcome"] == "interrupted");
  CHECK(lines[8]["exit_code"] == 130);
}

TEST_CASE("every event has both times and the writer's pid, and time never runs backwards") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  events.signal_received(SIGHUP);
  events.signal_received(SIGHUP);

  events.finish(kDeadline);
  const std::vector<json> lines = file.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["agent_pid"] == getpid());
  CHECK(lines[0]["monotonic_ns"].get<long long>() <= lines[1]["monotonic_ns"].get<long long>());
  CHECK(lines[0]["wall_ns"].get<long long>() > 1'700'000'000'000'000'000);  // after 2023
}

TEST_CASE("a worker that ended by itself has a code and no signal") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  events.worker_ended(0, 0, 0, 4711, launcher::ExitStatus(3 << 8), 0.25, "");

  events.finish(kDeadline);
  const json line = file.lines().at(0);
  CHECK(line["code"] == 3);
  CHECK(line["status"] == "exit 3");
  CHECK_FALSE(line.contains("signal"));
  CHECK_FALSE(line.contains("exception"));
}

TEST_CASE("a rendezvous without workers reports its port") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  events.serving(29500);

  events.finish(kDeadline);
  const json line = file.lines().at(0);
  CHECK(line["event"] == "serving");
  CHECK(line["port"] == 29500);
}

TEST_CASE("every written event and field is documented") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  events.job_started(training());
  events.serving(29500);
  events.round_ready(rendezvous::Layout(), "127.0.0.1", 41237);
  events.worker_started(3, 1, 1, 4711);
  events.worker_ended(3, 1, 1, 4711, launcher::ExitStatus(SIGKILL), 1.5, "Slow: wait");
  events.round_stopping(3, SIGTERM);
  events.restart(3, 1, 1);
  events.signal_received(SIGINT);
  events.job_ended(agent::Interrupted{SIGINT}, 130);
  events.job_ended(Error{Errc::timed_out, "nodes are missing"}, 124);

  std::ifstream page(source_path("docs/events.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  events.finish(kDeadline);
  for (const json& line : file.lines()) {
    for (const auto& [field, value] : line.items()) {
      INFO(field);
      CHECK(text.find("`" + field + "`") != std::string::npos);
    }
    INFO(line["event"]);
    CHECK(text.find("\n| `" + line["event"].get<std::string>() + "` |") != std::string::npos);
  }
}

TEST_CASE("the outcome of the job is written by name") {
  ScratchFile file;
  Events events = must(Events::open(file.path()));
  events.job_ended(agent::JobSucceeded{}, 0);
  events.job_ended(agent::JobFailed{139}, 139);
  events.job_ended(Error{Errc::timed_out, "nodes are missing"}, 124);

  events.finish(kDeadline);
  const std::vector<json> lines = file.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["outcome"] == "succeeded");
  CHECK(lines[1]["outcome"] == "worker_failed");
  CHECK(lines[1]["exit_code"] == 139);
  CHECK(lines[2]["outcome"] == "error");
  CHECK(lines[2]["error"] == "nodes are missing");
}

TEST_CASE("events of several writers are neither mixed nor lost") {
  constexpr int kWriters = 4, kEach = 500;
  ScratchFile file;
  std::ofstream(file.path()) << R"({"event": "of an earlier job"})" << '\n';

  for (int writer = 0; writer < kWriters; ++writer) {
    if (fork() == 0) {
      Result<Events> events = Events::open(file.path());
      if (!events) _exit(1);
      for (int i = 0; i < kEach; ++i) events->worker_started(i, writer, writer, getpid());
      events->finish(kDeadline);
      _exit(0);
    }
  }
  for (int writer = 0; writer < kWriters; ++writer) {
    int status = -1;
    REQUIRE(wait(&status) > 0);
    CHECK(status == 0);
  }

  const std::vector<json> lines = file.lines();
  CHECK(lines.at(0)["event"] == "of an earlier job");
  std::set<std::pair<int, int>> seen;
  for (size_t i = 1; i < lines.size(); ++i) seen.emplace(lines[i]["rank"], lines[i]["round"]);
  CHECK(seen.size() == kWriters * kEach);
}

TEST_CASE("a file that cannot be opened is refused before anything starts") {
  const Result<Events> events = Events::open("/no/such/directory/events.jsonl");

  if (events) FAIL("was opened");
  CHECK(events.error().code == Errc::usage);
  CHECK(events.error().message ==
        "cannot open the events file /no/such/directory/events.jsonl: No such file or directory");
}

TEST_CASE("a named pipe is refused without a reader, and else carries the events to it") {
  ScratchFile file;
  REQUIRE(mkfifo(file.path().c_str(), 0600) == 0);
  const Result<Events> unread = Events::open(file.path());
  if (unread) FAIL("was opened");
  CHECK(unread.error().code == Errc::usage);

  const Fd reader(::open(file.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Events events = must(Events::open(file.path()));
  events.signal_received(SIGHUP);
  events.finish(kDeadline);

  char line[512] = {};
  REQUIRE(::read(reader.get(), line, sizeof line - 1) > 0);
  CHECK(json::parse(line)["signal"] == "SIGHUP");
}

TEST_CASE("a full pipe does not block the job") {
  ScratchFile file;
  REQUIRE(mkfifo(file.path().c_str(), 0600) == 0);
  const Fd reader(::open(file.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Events events = must(Events::open(file.path()));
  int warnings = 0;
  log::set_writer([&warnings](std::string_view) { ++warnings; });
  for (int i = 0; i < 2000; ++i) events.signal_received(SIGHUP);  // a pipe holds 64 KiB
  events.finish(kDeadline);
  log::set_writer({});

  CHECK(warnings == 1);
}

TEST_CASE("a full disk is reported once, and the job continues") {
  Events events = must(Events::open("/dev/full"));
  std::vector<std::string> warnings;
  log::set_writer([&warnings](std::string_view line) { warnings.emplace_back(line); });
  events.signal_received(SIGHUP);
  events.signal_received(SIGHUP);
  events.finish(kDeadline);
  log::set_writer({});

  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("cannot write to the events file /dev/full: No space left on device") !=
        std::string::npos);
}

TEST_CASE("without a file no event is written") {
  Events events = must(Events::open(""));
  events.job_started(training());
  events.job_ended(agent::JobSucceeded{}, 0);
  SUCCEED();
}
