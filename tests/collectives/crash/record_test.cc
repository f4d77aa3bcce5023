// SPDX-License-Identifier: Apache-2.0
// The files that ddp::record leaves when a process dies, as the launcher reads them.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <sys/wait.h>

#include "agent/job/error_file.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/paths.h"

using ddprun::agent::parse_error_file;
using ddprun::agent::WorkerException;
using ddprun::tests::contains;
using ddprun::tests::program_path;

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A worker that has ended, and what it left.
class Worker {
 public:
  /// `error_file`: the value of TORCHELASTIC_ERROR_FILE; if empty, a file of this object.
  explicit Worker(const std::string& how, const std::optional<std::string>& error_file = {}) {
    char name[] = "/tmp/ddprun-record-XXXXXX";
    if (mkdtemp(name) == nullptr) FAIL("no temporary directory");
    directory_ = name;
    const std::string named = error_file.value_or(directory_ / "error.json");
    // The options make sanitizers leave the signals to ddp::record.
    const std::string command =
        "cd " + directory_.string() +
        "; ulimit -c 0; S=handle_segv=0:handle_abort=0:handle_sigbus=0:"
        "handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0; export ASAN_OPTIONS=$S TSAN_OPTIONS=$S "
        "UBSAN_OPTIONS=$S TORCHELASTIC_ERROR_FILE=" +
        named + "; exec " + program_path("record_worker") + " " + how + " >stdout 2>stderr";
    status_ = std::system(command.c_str());  // NOLINT(bugprone-command-processor)
    exception_ = parse_error_file(contents(directory_ / "error.json"));
  }
  ~Worker() { fs::remove_all(directory_); }

  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
  int signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
  const std::optional<WorkerException>& exception() const { return exception_; }
  std::string message() const { return exception_ ? exception_->message : "none"; }
  std::string traceback() const { return exception_ ? exception_->traceback : "none"; }
  std::string out() const { return contents(directory_ / "stdout"); }
  std::string err() const { return contents(directory_ / "stderr"); }

  /// Files besides stdout and stderr.
  auto files() const { return std::distance(fs::directory_iterator(directory_), {}) - 2; }

 private:
  fs::path directory_;
  int status_ = -1;
  std::optional<WorkerException> exception_;
};

}  // namespace

TEST_CASE("a process that exits by itself leaves no file") {
  const Worker good("well");
  CHECK(good.exit_code() == 0);
  CHECK(good.files() == 0);
  CHECK(good.err().empty());
  CHECK(Worker("seven").exit_code() == 7);
}

TEST_CASE("an exception is recorded with its type, its text and the backtrace of the throw") {
  const Worker worker("throw");
  CHECK(worker.exit_code() == 1);
  CHECK(worker.message() == "app::Broken: no digit 7 in \"digits\\data\"");
  CHECK(worker.traceback().ends_with(worker.message()));
  CHECK(contains(worker.traceback(), "main+0x"));
  const size_t thrower = worker.traceback().rfind("(load_digit()+0x");
  REQUIRE(thrower != std::string::npos);
  const std::string rest = worker.traceback().substr(thrower);
  CHECK(std::count(rest.begin(), rest.end(), '\n') == 1);  // the innermost call, then the message
  CHECK(worker.out() == "farewell\n");
  CHECK(contains(worker.err(), worker.traceback()));
  CHECK(worker.files() == 1);
}

TEST_CASE("nested exceptions are recorded from the outermost to the cause") {
  const Worker worker("nested");
  CHECK(worker.exit_code() == 1);
  CHECK(worker.message() ==
        "app::Broken: epoch 3\n"
        "caused by std::runtime_error: cannot load\n"
        "caused by std::system_error: digits: No such file or directory");
}

TEST_CASE("an exception of any type and with any bytes is recorded") {
  CHECK(Worker("int").message() == "int");
  const Worker text("text");
  CHECK(text.exit_code() == 1);
  CHECK(text.message() == "char const*: a\tb\\xff\\x1b");
}

TEST_CASE("an exception that ends the process elsewhere is recorded before std::terminate") {
  for (const char* how : {"thread", "noexcept"}) {
    INFO(how);
    const Worker worker(how);
    CHECK(worker.signal() == SIGABRT);
    CHECK(worker.message() == "app::Broken: no digit 7 in \"digits\\data\"");
    CHECK(contains(worker.err(), "terminate called"));
  }
  CHECK(contains(Worker("thread").traceback(), "(load_digit()+0x"));
}

TEST_CASE("a fatal signal is recorded with its address and backtrace, and kills the process") {
  const Worker worker("segv");
  CHECK(worker.signal() == SIGSEGV);
  CHECK(worker.message() == "SIGSEGV: nothing is mapped at address 0x10");
  CHECK(contains(worker.traceback(), "(_Z8write_toPi+0x"));
  CHECK(worker.traceback().ends_with(worker.message()));
  CHECK(contains(worker.err(), worker.traceback()));
  CHECK(worker.files() == 1);

  const Worker aborted("abort");
  CHECK(aborted.signal() == SIGABRT);
  CHECK(aborted.message() == "SIGABRT: abort() was called");
  for (const int signal : {SIGBUS, SIGFPE, SIGILL}) {
    const std::string name = std::string("SIG") + sigabbrev_np(signal);
    const Worker raised(name);
    CHECK(raised.signal() == signal);
    CHECK(raised.message() == name + ": raised by the process itself");
  }
}

TEST_CASE("stack overflow is recorded by its name") {
  const Worker worker("overflow");
  CHECK(worker.signal() == SIGSEGV);
  CHECK(worker.message().starts_with("SIGSEGV: stack overflow at address 0x"));
  CHECK(contains(worker.traceback(), "(_Z8overflowPVc+0x"));
}

TEST_CASE("a recursion is one line of the backtrace, with its number of repetitions") {
  const auto lines_with = [](const std::string& traceback, const std::string& text) {
    int lines = 0;
    for (std::size_t at = 0; (at = traceback.find(text, at)) != std::string::npos; ++at) ++lines;
    return lines;
  };
  const std::string alone = Worker("overflow").traceback();
  INFO(alone);
  CHECK(lines_with(alone, "(_Z8overflowPVc+0x") <= 3);  // one is repeated, and one is the innermost
  CHECK(lines_with(alone, " more like it\n") == 1);
  const std::string of_two = Worker("overflow_of_two").traceback();
  INFO(of_two);
  CHECK(lines_with(of_two, "(_Z17overflow_togetherPVc+0x") <= 3);
  CHECK(lines_with(of_two, "(_Z14overflow_apartPVc+0x") <= 3);
  CHECK(lines_with(of_two, " more like these 2\n") == 1);
}

TEST_CASE("a crash is recorded without descriptors, after chdir, and once for two threads") {
  for (const char* how : {"segv_without_descriptors", "segv_elsewhere", "segv_of_two"}) {
    INFO(how);
    const Worker worker(how, "error.json");
    CHECK(worker.signal() == SIGSEGV);
    CHECK(worker.message() == "SIGSEGV: nothing is mapped at address 0x10");
    CHECK(contains(worker.traceback(), "(_Z8write_toPi+0x"));
    CHECK(worker.files() == 1);
  }
}

TEST_CASE("a crash of a forked child is not recorded") {
  const Worker worker("child");
  CHECK(worker.exit_code() == 0);
  CHECK(worker.files() == 0);
}

TEST_CASE("an earlier handler of the signal is called last") {
  const Worker worker("handled");
  CHECK(worker.exit_code() == 6);
  CHECK(worker.out() == "handled before\n");
  CHECK(worker.message() == "SIGSEGV: nothing is mapped at address 0x10");
}

TEST_CASE("without a file, the cause is printed to stderr and the process ends the same way") {
  for (const char* file : {"", "/dev/null", "/no/such/directory/error.json"}) {
    INFO(file);
    const Worker thrown("throw", file);
    CHECK(thrown.exit_code() == 1);
    CHECK(contains(thrown.err(), "app::Broken: no digit 7"));
    CHECK(thrown.files() == 0);
    const Worker killed("segv", file);
    CHECK(killed.signal() == SIGSEGV);
    CHECK(contains(killed.err(), "SIGSEGV: nothing is mapped at address 0x10"));
  }
  CHECK(fs::is_character_file("/dev/null"));
}
