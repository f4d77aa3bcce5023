// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/deadline_watch.h"

#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "base/fd.h"
#include "base/log.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

std::chrono::sys_seconds in_an_hour() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now() + 1h);
}

/// A job whose signal has been due for long.
JobSpec due_job() {
  JobSpec job;
  job.deadline = Deadline{SIGUSR2, std::chrono::hours(24), "slurm job 42", in_an_hour(), {}};
  return job;
}

/// A worker that sets up a handler at set_up().
class Worker {
 public:
  Worker() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    go_.reset(ends[1]);
    pid_ = fork();
    if (pid_ > 0) return;
    char byte = 0;
    if (read(reader.get(), &byte, 1) == 1) std::signal(SIGUSR2, [](int) { _exit(7); });
    for (;;) pause();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) wait();
  }

  pid_t pid() const { return pid_; }
  void set_up() const { REQUIRE(write(go_.get(), "", 1) == 1); }
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  Fd go_;
};

/// A watch, and the lines that it writes.
class Watched {
 public:
  Watched(const JobSpec& job, pid_t worker)
      : job_(job), watch_(io_.get_executor(), job_, [worker] {
          return DeadlineWatch::NodeProcesses{0, {{0, worker}}};
        }) {
    log::set_writer([this](std::string_view line) { lines_ += line; });
    watch_.begin();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { log::set_writer({}); }

  /// Runs until a line has the text.
  void run_until(const std::string& text) {
    while (!tests::contains(lines_, text)) REQUIRE(io_.run_one() == 1);
  }

  const std::string& lines() const { return lines_; }

 private:
  boost::asio::io_context io_;
  JobSpec job_;
  std::string lines_;
  DeadlineWatch watch_;
};

TEST_CASE("a worker gets the deadline's signal once it handles it, and not before") {
  Worker worker;
  Watched watched(due_job(), worker.pid());
  watched.run_until("slurm job 42's time limit is over in ");
  CHECK(tests::contains(watched.lines(), "no worker here handles SIGUSR2"));
  worker.set_up();
  watched.run_until("SIGUSR2 to all workers");
  CHECK(WEXITSTATUS(worker.wait()) == 7);
}

TEST_CASE("the scheduler is asked for an unknown deadline") {
  Worker worker;
  worker.set_up();
  JobSpec job = due_job();
  job.deadline->query = {"echo", std::to_string(in_an_hour().time_since_epoch().count())};
  job.deadline->end.reset();
  Watched watched(job, worker.pid());
  watched.run_until("SIGUSR2 to all workers");
  CHECK(WEXITSTATUS(worker.wait()) == 7);
}

TEST_CASE("a scheduler's answer that is no time means that the job has no end") {
  CHECK(parse_end("1795443834\n") == std::chrono::sys_seconds(1'795'443'834s));
  CHECK(parse_end("1795443834") == std::chrono::sys_seconds(1'795'443'834s));
  for (const char* none : {"", "\n", "NONE\n", "N/A\n", "-5\n", "0\n", "17954438x\n",
                           "99999999999999999999\n", "9999999999\n"}) {
    INFO(none);
    CHECK_FALSE(parse_end(none));
  }
}

TEST_CASE("a line says when the time is over, and how many workers got the signal") {
  const Deadline deadline = {SIGUSR2, 90s, "slurm job 42", {}, {}};
  CHECK(deadline_line(deadline, 90s, 8, 8) ==
        "slurm job 42's time limit is over in 90 s: SIGUSR2 to all workers");
  CHECK(deadline_line(deadline, 5s, 1, 8) ==
        "slurm job 42's time limit is over in 5 s: SIGUSR2 to 1 of 8 workers here, as the others "
        "do not handle it");
  CHECK(deadline_line(deadline, -5s, 0, 8) ==
        "slurm job 42's time limit is over: no worker here handles SIGUSR2, so none gets "
        "it");
}

}  // namespace
}  // namespace ddprun::agent
