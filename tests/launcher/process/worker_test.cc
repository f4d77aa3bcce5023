// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/worker.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "base/text.h"
#include "launcher/kernel/topology.h"
#include "launcher/process/spawn.h"
#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::tests::contains;

namespace {

struct Ended {
  ExitStatus status;
  std::string out;
  std::optional<Error> exec_failure;
};

/// Reads `pipe` to its end of file.
std::string read_all(const Fd& pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(pipe.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

Command shell(const std::string& script) {
  static const Fd no_input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Command command;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  command.stdin_fd = no_input.get();
  return command;
}

Spawned must_spawn(const std::vector<Command>& commands) {
  Spawned spawned = spawn(commands);
  if (spawned.failure) FAIL(spawned.failure->message);
  REQUIRE(spawned.children.size() == commands.size());
  return spawned;
}

/// Runs `command` as a worker until it has ended.
Ended run(const Command& command) {
  boost::asio::io_context io;
  Spawned spawned = must_spawn({command});
  Worker worker(io.get_executor(), spawned.children[0]);
  std::optional<ExitStatus> status;
  worker.when_ended([&](ExitStatus end) { status = end; });
  io.run();
  REQUIRE(status);
  CHECK_FALSE(worker.running());
  return {*status, read_all(spawned.children[0].out), spawned.batch.exec_failure(0)};
}

Ended run(const std::string& script) {
  const Ended ended = run(shell(script));
  CHECK_FALSE(ended.exec_failure);
  return ended;
}

}  // namespace

TEST_CASE("a worker's end is reported with its exact status") {
  CHECK(run("exit 0").status.success());
  CHECK(run("exit 77").status.code() == 77);
  CHECK(run("kill -SEGV $$").status.signal() == SIGSEGV);
}

TEST_CASE("a worker gets exactly its command's environment and arguments") {
  CHECK(run("echo $GREETING; [ -z \"$HOME\" ] && echo none").out == "hello\nnone\n");
}

TEST_CASE("a worker leads its own session and process group") {
  CHECK(run("set -- $(cat /proc/$$/stat); [ $1 = $5 ] && [ $1 = $6 ] && echo leads").out ==
        "leads\n");
}

TEST_CASE("a worker has only the three standard descriptors open") {
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket leaky(io, boost::asio::ip::tcp::v4());
  // The shell waits for ls and has nothing open for it: no pipe, and ':' keeps it from exec'ing ls.
  CHECK(run("ls /proc/$$/fd; :").out == "0\n1\n2\n");
}

TEST_CASE("a worker inherits the descriptors that its command names") {
  const Fd one(open("/dev/null", O_RDONLY | O_CLOEXEC)), other(open("/dev/null", O_RDONLY));
  Command command = shell("[ -e /proc/self/fd/$0 ] && ! [ -e /proc/self/fd/$1 ]");
  command.arguments.push_back(std::to_string(one.get()));
  command.arguments.push_back(std::to_string(other.get()));
  command.inherited = {one.get()};
  CHECK(run(command).status.success());
  CHECK(fcntl(one.get(), F_GETFD) == FD_CLOEXEC);  // here
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

TEST_CASE("our higher limit of open files is not inherited by workers") {
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

TEST_CASE("a worker runs on its command's CPUs, or by default on ours") {
  const std::vector<int> allowed = allowed_cpus();
  Command bound = shell("grep Cpus_allowed_list /proc/self/status");
  const std::string anywhere = run(bound).out;
  CHECK(anywhere == "Cpus_allowed_list:\t" + list_text(allowed) + "\n");
  bound.cpus = {allowed.back()};
  CHECK(run(bound).out == "Cpus_allowed_list:\t" + std::to_string(allowed.back()) + "\n");
  CHECK(allowed_cpus() == allowed);
}

TEST_CASE("a worker that may run on none of its CPUs is an error, and never runs") {
  Command command = shell("echo runs");
  command.cpus = {8191};  // Linux has at most 8192
  const Ended ended = run(command);
  REQUIRE(ended.exec_failure);
  CHECK(ended.exec_failure->code == Errc::system);
  CHECK(ended.exec_failure->message.starts_with("cannot bind the worker to its CPUs: "));
  CHECK(ended.out.empty());
}

TEST_CASE("the error about a failed exec has the name and the reason") {
  char path[] = "/tmp/ddprun-test-XXXXXX";
  const Fd file(mkstemp(path));
  REQUIRE(write(file.get(), "no first line\n", 14) == 14);
  fchmod(file.get(), 0755);
  Command command = shell("");
  command.program = path;
  const std::optional<Error> failure = run(command).exec_failure;
  unlink(path);
  REQUIRE(failure);
  CHECK(failure->code == Errc::not_executable);
  CHECK(failure->message.find(path) != std::string::npos);
}

TEST_CASE("exactly the failed execs of many children are reported") {
  Command missing = shell("");
  missing.program = "/no/such/program";
  const std::vector<Command> commands = {shell("exit 127"), missing, shell("exit 0"), missing};
  Spawned spawned = must_spawn(commands);
  for (const Child& child : spawned.children) {
    int status = 0;
    REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
  }
  std::vector<bool> failed;
  for (size_t i = 0; i < commands.size(); ++i) {
    failed.push_back(spawned.batch.exec_failure(i).has_value());
  }
  CHECK(failed == std::vector<bool>{false, true, false, true});
}

TEST_CASE("if no more processes are allowed, the error names the limits") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit one{1, 1};
    setrlimit(RLIMIT_NPROC, &one);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);  // root has no limit
    const Spawned spawned = spawn({shell("exit 0")});
    const bool told = spawned.failure &&
                      contains(spawned.failure->message, "limit of processes reached: ulimit -u");
    _exit(told ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("destroying a worker kills its whole group") {
  Spawned spawned = must_spawn({shell("sleep 1000 & echo started; wait")});
  const Fd& out = spawned.children[0].out;
  {
    boost::asio::io_context io;
    const Worker worker(io.get_executor(), spawned.children[0]);
    char byte;
    REQUIRE(read(out.get(), &byte, 1) == 1);
  }
  CHECK(read_all(out) == "tarted\n");  // the end of file comes only when the sleep is dead too
}
