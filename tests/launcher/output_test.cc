// SPDX-License-Identifier: Apache-2.0
#include "launcher/output.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <pty.h>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Pipe make_pipe() {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

struct WorkerPipes {
  Fd out;
  Fd err;
};

/// A worker's pipes, whose other ends `output` reads.
WorkerPipes add_worker(Output& output, int rank, const std::string& prefix,
                       Relay relay = Relay::lines) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  output.add_worker(rank, prefix, relay, std::move(out.read_end), std::move(err.read_end));
  return {std::move(out.write_end), std::move(err.write_end)};
}

/// Reads all that comes, on the test's io_context: the user's side of stdout.
class Reader {
 public:
  Reader(asio::io_context& context, Fd fd) : stream_(context, fd.release()) { read(); }

  std::string text;

 private:
  void read() {
    stream_.async_read_some(asio::buffer(buffer_), [this](auto error, size_t count) {
      text.append(buffer_.data(), count);
      if (!error) read();
    });
  }

  asio::posix::stream_descriptor stream_;
  std::array<char, 65536> buffer_;
};

/// A shell script whose stdout and stderr are `pipes`, which it takes away.
class Child {
 public:
  Child(const std::string& script, WorkerPipes pipes) : pid_(fork()) {
    if (pid_ != 0) return;
    dup2(pipes.out.get(), 1);
    dup2(pipes.err.get(), 2);
    std::signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) wait();
  }

  /// Waits for its end; the raw status.
  int wait() {
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

/// Runs the loop until `condition`; a failure after a generous time.
template <class Condition>
void run_until(asio::io_context& context, Condition condition) {
  context.restart();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) FAIL("it never happens");
    context.run_one_until(deadline);
  }
}

void run_until_drained(asio::io_context& context, Output& output) {
  bool drained = false;
  output.when_drained([&] { drained = true; });
  run_until(context, [&] { return drained; });
}

struct IgnoreSigpipe {
  IgnoreSigpipe() { std::signal(SIGPIPE, SIG_IGN); }
} ignore_sigpipe;

/// An Output between two pipes, with a reader at each.
struct Stage {
  explicit Stage(Pipe out_pipe = make_pipe(), Pipe err_pipe = make_pipe())
      : out(std::move(out_pipe.write_end)),
        err(std::move(err_pipe.write_end)),
        out_reader(context, std::move(out_pipe.read_end)),
        err_reader(context, std::move(err_pipe.read_end)),
        output(context.get_executor(), out.get(), err.get()) {}

  Child start(int rank, const std::string& script, Relay relay = Relay::lines) {
    const std::string prefix = relay == Relay::lines ? "[" + std::to_string(rank) + "] " : "";
    return Child(script, add_worker(output, rank, prefix, relay));
  }

  /// Until everything has arrived at the readers.
  void finish() {
    run_until_drained(context, output);
    for (Fd* fd : {&out, &err}) {
      const std::string last = "<end>";
      REQUIRE(write(fd->get(), last.data(), last.size()) == 5);
    }
    for (Reader* reader : {&out_reader, &err_reader}) {
      run_until(context, [&] { return reader->text.ends_with("<end>"); });
      reader->text.resize(reader->text.size() - 5);
    }
  }

  asio::io_context context{1};
  Fd out;
  Fd err;
  Reader out_reader;
  Reader err_reader;
  Output output;
};

/// Each rank's lines, without their prefix "[rank] ". Fails on a line without one.
std::map<int, std::vector<std::string>> by_rank(const std::string& text) {
  std::map<int, std::vector<std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    int rank = -1;
    int length = 0;
    if (sscanf(line.c_str(), "[%d] %n", &rank, &length) != 1 || length == 0) FAIL(line);
    lines[rank].push_back(line.substr(static_cast<size_t>(length)));
  }
  return lines;
}

std::vector<std::string> numbers_to(int last) {
  std::vector<std::string> lines;
  for (int i = 1; i <= last; ++i) lines.push_back(std::to_string(i));
  return lines;
}

TEST_CASE("lines of four workers arrive whole, in order, with their prefix") {
  Stage stage;
  std::vector<Child> children;
  for (int rank = 0; rank < 4; ++rank) children.push_back(stage.start(rank, "seq 50000"));
  stage.finish();
  const auto lines = by_rank(stage.out_reader.text);
  REQUIRE(lines.size() == 4);
  for (const auto& [rank, of_rank] : lines) CHECK((of_rank == numbers_to(50'000)));
  CHECK(stage.err_reader.text.empty());
}

TEST_CASE("stdout and stderr are kept apart") {
  Stage stage;
  Child child = stage.start(3, "echo out; echo err >&2");
  stage.finish();
  CHECK(stage.out_reader.text == "[3] out\n");
  CHECK(stage.err_reader.text == "[3] err\n");
}

TEST_CASE("stdout and stderr that are one file still get whole lines") {
  Stage stage;
  Output both(stage.context.get_executor(), stage.out.get(), stage.out.get());
  std::vector<Child> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.emplace_back("seq 20000 & seq 20000 >&2; wait",
                          add_worker(both, rank, "[" + std::to_string(rank) + "] ", Relay::lines));
  }
  run_until_drained(stage.context, both);
  stage.finish();
  size_t digits = 0;
  for (const auto& [rank, of_rank] : by_rank(stage.out_reader.text)) {
    CHECK(of_rank.size() == 40'000);
    for (const auto& line : of_rank) digits += line.size();
  }
  CHECK(digits == 4 * 88'894);  // digits of 1 to 20,000
}

TEST_CASE("the last lines of a killed worker arrive, also without newline") {
  Stage stage;
  Child child = stage.start(0, "seq 1000; printf 'the end'; kill -9 $$");
  stage.finish();
  auto expected = numbers_to(1000);
  expected.push_back("the end");
  CHECK(by_rank(stage.out_reader.text)[0] == expected);
  CHECK(WTERMSIG(child.wait()) == SIGKILL);
}

TEST_CASE("a line of 1 MiB comes through the pipes whole") {
  Stage stage;
  Child child = stage.start(0, "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after");
  stage.finish();
  CHECK(stage.out_reader.text == "[0] " + std::string(1 << 20, 'x') + "\n[0] after\n");
}

TEST_CASE("progress and a lonely worker's prompt are seen while the line is open") {
  Stage stage;
  const bool alone = GENERATE(true, false);
  const WorkerPipes pipes =
      add_worker(stage.output, 0, alone ? "" : "[0] ", alone ? Relay::bytes : Relay::lines);
  const std::string text = alone ? "name? " : "\r10%";
  REQUIRE(write(pipes.out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const std::string expected = alone ? "name? " : "\r[0] 10%";
  run_until(stage.context, [&] { return stage.out_reader.text == expected; });
}

TEST_CASE("on a terminal prefixes have colours and progress lines share one line") {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  int master = -1;
  int terminal = -1;
  termios raw{};
  cfmakeraw(&raw);
  REQUIRE(openpty(&master, &terminal, nullptr, &raw, nullptr) == 0);
  const Fd terminal_end(terminal);
  asio::io_context context;
  Reader screen(context, Fd(master));
  Output output(context.get_executor(), terminal, terminal);

  const WorkerPipes zero = add_worker(output, 0, "[0] ");
  const WorkerPipes one = add_worker(output, 1, "[1] ");
  REQUIRE(write(zero.err.get(), "\r1%", 3) == 3);
  std::string expected = "\r\033[36m[0] \033[0m1%";
  run_until(context, [&] { return screen.text == expected; });
  REQUIRE(write(one.err.get(), "\r2%", 3) == 3);
  expected += "\r\033[K\r\033[33m[1] \033[0m2%";
  run_until(context, [&] { return screen.text == expected; });
  REQUIRE(write(zero.out.get(), "line\n", 5) == 5);
  expected += "\n\033[36m[0] \033[0mline\n";
  run_until(context, [&] { return screen.text == expected; });
}

/// Writes to `fd` and runs what is ready, until neither goes on: everything is full. The bytes.
size_t fill(asio::io_context& context, int fd) {
  std::string lines;
  while (lines.size() < 60'000) lines += "a line that nobody reads\n";
  fcntl(fd, F_SETFL, O_NONBLOCK);
  size_t total = 0;
  for (bool full = false; !full;) {
    context.restart();
    while (context.poll() > 0) {
    }
    const ssize_t count = write(fd, lines.data(), lines.size());
    full = count < 0;
    if (!full) total += static_cast<size_t>(count);
    if (total > (size_t{8} << 20)) FAIL("no end of it");
  }
  return total;
}

TEST_CASE("a stopped reader stops the worker, with bounded memory and without blocking") {
  const bool use_socket = GENERATE(false, true);
  Pipe pipe = make_pipe();
  if (use_socket) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pipe = {Fd(ends[0]), Fd(ends[1])};
  }
  asio::io_context context;
  Output output(context.get_executor(), pipe.write_end.get(), pipe.write_end.get());
  WorkerPipes pipes = add_worker(output, 0, "[0] ");

  const size_t accepted = fill(context, pipes.out.get());
  CHECK(accepted < (size_t{2} << 20));  // the worker's pipe holds 1 MiB of it

  INFO("the flags are shared with the user's shell");
  CHECK((fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK) == 0);

  SECTION("once it reads again, everything arrives") {
    pipes = {};
    Reader reader(context, std::move(pipe.read_end));
    run_until_drained(context, output);
    const size_t lines = (accepted + 24) / 25;  // the last one may have been cut by the full pipe
    const size_t expected = accepted + 4 * lines + (accepted % 25 == 0 ? 0 : 1);
    run_until(context, [&] { return reader.text.size() >= expected; });
    CHECK(by_rank(reader.text)[0].size() == lines);
  }
  SECTION("own lines wait up to a bound, and those dropped are counted") {
    const std::string own = "ddprun: " + std::string(1000, 'x') + "\n";
    for (int i = 0; i < 3000; ++i) output.write_own_line(own);
    log::set_writer([&](std::string_view line) { output.write_own_line(line); });
    pipes = {};
    Reader reader(context, std::move(pipe.read_end));
    run_until(context,
              [&] { return reader.text.find("lines of ddprun were dropped") != reader.text.npos; });
    log::set_writer(nullptr);
    CHECK(reader.text.find(own + own) != reader.text.npos);
  }
  SECTION("given up, it keeps nobody waiting any more") {
    pipes = {};
    output.give_up_stopped_readers();
    run_until_drained(context, output);
  }
  SECTION("the last flush gives up after its limit") {
    output.finish(10ms);
    pipes = {};
    pipe.read_end.reset();
  }
}

TEST_CASE("a reader that is gone: the workers run on and end well") {
  Stage stage;
  Pipe gone = make_pipe();
  Output output(stage.context.get_executor(), gone.write_end.get(), stage.err.get());
  Child child("seq 1000000; echo done >&2", add_worker(output, 0, "[0] "));
  gone.read_end.reset();
  run_until_drained(stage.context, output);
  CHECK(child.wait() == 0);
  stage.finish();
  CHECK(stage.err_reader.text == "[0] done\n");
}

TEST_CASE("a pipe without a reader from the start, and a closed stdout, discard") {
  Pipe gone = make_pipe();
  gone.read_end.reset();
  const int out = GENERATE(0, 1) == 0 ? gone.write_end.get() : 999;
  asio::io_context context;
  Output output(context.get_executor(), out, out);
  Child child("seq 100000; seq 100000 >&2", add_worker(output, 0, "[0] "));
  run_until_drained(context, output);
  CHECK(child.wait() == 0);
}

TEST_CASE("a full disk is told once and stops nobody") {
  Stage stage;
  const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  Output output(stage.context.get_executor(), full.get(), stage.err.get());
  log::set_writer([&](std::string_view line) { output.write_own_line(line); });
  Child child("seq 100000; echo done >&2", add_worker(output, 0, "[0] "));
  run_until_drained(stage.context, output);
  log::set_writer(nullptr);
  CHECK(child.wait() == 0);
  stage.finish();
  const std::string told =
      "ddprun: some output is lost: cannot write to stdout: No space left on device\n";
  const std::string& text = stage.err_reader.text;
  CHECK(text.find(told) != text.npos);
  CHECK(text.find("lost") == text.rfind("lost"));
  CHECK(text.find("[0] done\n") != text.npos);
}

TEST_CASE("ddprun's own lines go between the workers' lines, never into one") {
  Stage stage;
  const WorkerPipes pipes = add_worker(stage.output, 0, "[0] ");
  REQUIRE(write(pipes.err.get(), "\r50%", 4) == 4);
  run_until(stage.context, [&] { return stage.err_reader.text == "\r[0] 50%"; });
  stage.output.write_own_line("ddprun: hello\n");
  run_until(stage.context, [&] { return stage.err_reader.text.ends_with("hello\n"); });
  CHECK(stage.err_reader.text == "\r[0] 50%\nddprun: hello\n");
}

TEST_CASE("the last words of a dead worker are complete before the loop has run") {
  Stage stage;
  Child child = stage.start(7, "seq 9000 >&2; echo boom >&2; exit 3");
  CHECK(WEXITSTATUS(child.wait()) == 3);
  const std::string words = stage.output.last_words(7);
  CHECK(words.ends_with("8999\n9000\nboom"));
  CHECK(stage.output.last_words(8).empty());
  stage.finish();
  CHECK(by_rank(stage.err_reader.text)[7].size() == 9001);
}

TEST_CASE("drained means that nobody holds a pipe open, grandchildren too") {
  Stage stage;
  const Pipe hold = make_pipe();
  bool drained = false;
  // The grandchild lives until `hold` is written to.
  const std::string held =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(hold.read_end.get());
  Child child = stage.start(0, "(read line <" + held + "; echo $line) & echo parent");
  CHECK(child.wait() == 0);
  stage.output.when_drained([&] { drained = true; });
  run_until(stage.context, [&] { return stage.out_reader.text == "[0] parent\n"; });
  stage.context.poll();
  CHECK(!drained);
  REQUIRE(write(hold.write_end.get(), "late\n", 5) == 5);
  run_until(stage.context, [&] { return drained; });
  stage.finish();
  CHECK(stage.out_reader.text == "[0] parent\n[0] late\n");
}

TEST_CASE("a new round starts with new workers, whatever the old pipes do") {
  Stage stage;
  const WorkerPipes old = add_worker(stage.output, 0, "[old] ");
  REQUIRE(write(old.out.get(), "unread\n", 7) == 7);
  stage.output.remove_workers();
  Child child = stage.start(0, "echo new");
  stage.finish();
  CHECK(stage.out_reader.text == "[0] new\n");
}

TEST_CASE("a regular file gets everything in order, behind what is already there") {
  char path[] = "/tmp/ddprun_output_XXXXXX";
  Fd file(mkstemp(path));
  REQUIRE(file);
  REQUIRE(write(file.get(), "head\n", 5) == 5);
  asio::io_context context;
  Output output(context.get_executor(), file.get(), file.get());
  Child child("seq 100000", add_worker(output, 0, ""));
  run_until_drained(context, output);

  std::string expected = "head\n";
  for (int i = 1; i <= 100'000; ++i) expected += std::to_string(i) + "\n";
  std::string text(expected.size() + 1, '\0');
  const ssize_t count = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  CHECK((text == expected));
  unlink(path);
}

}  // namespace
}  // namespace ddprun::launcher
