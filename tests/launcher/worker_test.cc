// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "launcher/descendants.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

struct Ended {
  ExitStatus status;
  std::string out;
};

/// A pipe to read what a child wrote, with room for all of it.
struct Capture {
  Fd read_end, write_end;
  Capture() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  std::string text() {
    write_end.reset();
    std::string result;
    char buffer[4096];
    for (ssize_t size; (size = read(read_end.get(), buffer, sizeof buffer)) > 0;) {
      result.append(buffer, static_cast<size_t>(size));
    }
    return result;
  }
};

Command shell(const std::string& script, int out) {
  Command command;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  command.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  command.stdout_fd = out;
  command.stderr_fd = STDERR_FILENO;
  return command;
}

/// Runs `script` as a worker to its end.
Ended run(const std::string& script) {
  boost::asio::io_context io;
  Capture capture;
  std::optional<ExitStatus> status;
  const Command command = shell(script, capture.write_end.get());
  Worker worker = must(Worker::spawn(io.get_executor(), command));
  close(command.stdin_fd);
  worker.when_ended([&](ExitStatus end) { status = end; });
  io.run();
  REQUIRE(status);
  CHECK_FALSE(worker.running());
  CHECK_FALSE(worker.exec_failure());
  return {*status, capture.text()};
}

}  // namespace

TEST_CASE("a worker's end comes with its exact status") {
  CHECK(run("exit 0").status.success());
  CHECK(run("exit 77").status.code() == 77);
  CHECK(run("kill -SEGV $$").status.signal() == SIGSEGV);
}

TEST_CASE("a worker gets exactly the environment and arguments it was given") {
  CHECK(run("echo $GREETING; [ -z \"$HOME\" ] && echo none").out == "hello\nnone\n");
}

TEST_CASE("a worker leads a session and a process group of its own") {
  CHECK(run("set -- $(cat /proc/$$/stat); [ $1 = $5 ] && [ $1 = $6 ] && echo leads").out ==
        "leads\n");
}

TEST_CASE("a worker finds no descriptor open but the three") {
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket leaky(io, boost::asio::ip::tcp::v4());
  // The shell waits for ls and has nothing open for it: no pipe, and ':' keeps it from exec'ing ls.
  CHECK(run("ls /proc/$$/fd; :").out == "0\n1\n2\n");
}

TEST_CASE("a worker starts with no signal blocked or ignored") {
  signal(SIGPIPE, SIG_IGN);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const std::string out = run("grep -E 'SigBlk|SigIgn' /proc/self/status").out;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, SIG_DFL);
  CHECK(out == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("our higher limit of open files is not handed on to workers") {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = {std::min<rlim_t>(before.rlim_max, 256), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  raise_open_files_limit();
  rlimit raised = {};
  getrlimit(RLIMIT_NOFILE, &raised);
  CHECK(raised.rlim_cur == raised.rlim_max);
  CHECK(run("ulimit -n").out == std::to_string(low.rlim_cur) + "\n");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a file the kernel refuses to execute is told by name and reason") {
  char path[] = "/tmp/ddprun-test-XXXXXX";
  const Fd file(mkstemp(path));
  REQUIRE(write(file.get(), "no first line\n", 14) == 14);
  fchmod(file.get(), 0755);
  boost::asio::io_context io;
  Command command = shell("", STDOUT_FILENO);
  command.program = path;
  Worker worker = must(Worker::spawn(io.get_executor(), command));
  close(command.stdin_fd);
  worker.when_ended([](ExitStatus) {});
  io.run();
  unlink(path);
  const std::optional<Error> failure = worker.exec_failure();
  REQUIRE(failure);
  CHECK(failure->code == Errc::not_executable);
  CHECK(failure->message.find(path) != std::string::npos);
}

TEST_CASE("dropping a worker kills its whole group") {
  Capture capture;
  {
    boost::asio::io_context io;
    const Command command = shell("sleep 1000 & echo started; wait", capture.write_end.get());
    const Worker worker = must(Worker::spawn(io.get_executor(), command));
    close(command.stdin_fd);
    char byte;
    REQUIRE(read(capture.read_end.get(), &byte, 1) == 1);
  }
  CHECK(capture.text() == "tarted\n");  // the end of file comes only when the sleep is dead too
}

TEST_CASE("a process name with blanks and parentheses is read right") {
  const auto process = parse_proc_stat("4242 (tr (ain) x) S 17 4242 4242 0 -1 4194304");
  REQUIRE(process);
  CHECK(process->pid == 4242);
  CHECK(process->name == "tr (ain) x");
  CHECK(process->parent == 17);
  CHECK(process->group == 4242);
  CHECK_FALSE(parse_proc_stat(""));
  CHECK_FALSE(parse_proc_stat("12 (x"));
  CHECK_FALSE(parse_proc_stat("12 (x) S"));
}
