// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/output.h"

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/process/terminal.h"
#include "tests/catch.h"
#include "tests/launcher/output/output_fixture.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace ddprun::tests;
namespace asio = boost::asio;

std::vector<std::string> numbers_to(int last) {
  std::vector<std::string> lines;
  for (int i = 1; i <= last; ++i) lines.push_back(std::to_string(i));
  return lines;
}

TEST_CASE("lines of four workers arrive whole, in order, with their prefix") {
  OutputFixture fixture;
  std::vector<Child> children;
  for (int rank = 0; rank < 4; ++rank) children.push_back(fixture.start(rank, "seq 50000"));
  fixture.finish();
  const auto lines = by_rank(fixture.out_reader.text);
  REQUIRE(lines.size() == 4);
  for (const auto& [rank, of_rank] : lines) CHECK((of_rank == numbers_to(50'000)));
  CHECK(fixture.err_reader.text.empty());
}

TEST_CASE("stdout and stderr are kept apart") {
  OutputFixture fixture;
  Child child = fixture.start(3, "echo out; echo err >&2");
  fixture.finish();
  CHECK(fixture.out_reader.text == "[3] out\n");
  CHECK(fixture.err_reader.text == "[3] err\n");
}

TEST_CASE("stdout and stderr that are the same file get whole lines") {
  OutputFixture fixture;
  Output both(fixture.context.get_executor(), fixture.out.get(), fixture.out.get());
  std::vector<Child> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.emplace_back(
        "seq 20000 & seq 20000 >&2; wait",
        add_worker(both, rank, "[" + std::to_string(rank) + "] ", Buffering::line));
  }
  run_until_drained(fixture.context, both);
  fixture.finish();
  size_t digits = 0;
  for (const auto& [rank, of_rank] : by_rank(fixture.out_reader.text)) {
    CHECK(of_rank.size() == 40'000);
    for (const auto& line : of_rank) digits += line.size();
  }
  CHECK(digits == 4 * 88'894);  // digits of 1 to 20,000
}

TEST_CASE("the last lines of a killed worker arrive, also without a newline") {
  OutputFixture fixture;
  Child child = fixture.start(0, "seq 1000; printf 'the end'; kill -9 $$");
  fixture.finish();
  auto expected = numbers_to(1000);
  expected.push_back("the end");
  CHECK(by_rank(fixture.out_reader.text)[0] == expected);
  CHECK(WTERMSIG(child.wait()) == SIGKILL);
}

TEST_CASE("a line of 1 MiB comes through the pipes whole") {
  OutputFixture fixture;
  Child child = fixture.start(0, "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after");
  fixture.finish();
  CHECK(fixture.out_reader.text == "[0] " + std::string(1 << 20, 'x') + "\n[0] after\n");
}

TEST_CASE("progress and a single worker's prompt are shown before the newline") {
  OutputFixture fixture;
  const bool alone = GENERATE(true, false);
  const WorkerPipes pipes =
      add_worker(fixture.output, 0, alone ? "" : "[0] ", alone ? Buffering::none : Buffering::line);
  const std::string text = alone ? "name? " : "\r10%";
  REQUIRE(write(pipes.out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const std::string expected = alone ? "name? " : "\r[0] 10%";
  run_until(fixture.context, [&] { return fixture.out_reader.text == expected; });
}

PseudoTerminal open_screen(bool coloured = false) {
  setenv("TERM", "xterm", 1);
  coloured ? unsetenv("NO_COLOR") : setenv("NO_COLOR", "1", 1);
  return must(open_pseudo_terminal({}));
}

TEST_CASE("a prompt of one of several workers is shown on a terminal, and its line continues") {
  PseudoTerminal users = open_screen();
  asio::io_context context;
  Reader screen(context, std::move(users.master));
  Output output(context.get_executor(), users.slave.get(), users.slave.get());
  const WorkerPipes pipes = add_worker(output, 0, "[0] ");
  REQUIRE(write(pipes.out.get(), "one\nname? ", 10) == 10);
  run_until(context, [&] { return screen.text == "[0] one\n[0] name? "; });
  REQUIRE(write(pipes.out.get(), "hello\n", 6) == 6);
  run_until(context, [&] { return screen.text.ends_with("name? hello\n"); });
}

TEST_CASE("a line that comes in parts is whole in a pipe, though a terminal shows a prompt") {
  PseudoTerminal users = open_screen();
  asio::io_context context;
  Pipe pipe = make_pipe();
  Reader screen(context, std::move(users.master)), reader(context, std::move(pipe.read_end));
  Output output(context.get_executor(), pipe.write_end.get(), users.slave.get());
  const WorkerPipes zero = add_worker(output, 0, "[0] ");
  const WorkerPipes one = add_worker(output, 1, "[1] ");
  REQUIRE(write(zero.out.get(), "loading ... ", 12) == 12);
  context.poll();
  REQUIRE(write(zero.err.get(), "name? ", 6) == 6);
  run_until(context, [&] { return screen.text == "[0] name? "; });
  REQUIRE(write(one.out.get(), "line\n", 5) == 5);
  run_until(context, [&] { return reader.text.ends_with("line\n"); });
  REQUIRE(write(zero.out.get(), "done\n", 5) == 5);
  run_until(context, [&] { return reader.text.ends_with("done\n"); });
  CHECK(reader.text == "[1] line\n[0] loading ... done\n");
}

TEST_CASE("the last output of a worker that hangs in a line is also shown in a pipe") {
  OutputFixture fixture;
  const WorkerPipes pipes = add_worker(fixture.output, 0, "[0] ");
  REQUIRE(write(pipes.out.get(), "loading ... ", 12) == 12);
  run_until(fixture.context, [&] { return fixture.out_reader.text == "[0] loading ... "; });
}

TEST_CASE("a line that a full buffer of the worker cuts is not shown in two pieces") {
  PseudoTerminal users = open_screen();
  asio::io_context context;
  Reader screen(context, std::move(users.master));
  Output output(context.get_executor(), users.slave.get(), users.slave.get());
  const WorkerPipes pipes = add_worker(output, 0, "[0] ");
  const WorkerPipes other = add_worker(output, 1, "[1] ");
  const std::string buffer = std::string(4000, 'x') + "\n" + std::string(95, 'y');
  REQUIRE(write(pipes.out.get(), buffer.data(), buffer.size()) == 4096);
  REQUIRE(write(other.out.get(), "prompt? ", 8) == 8);
  run_until(context, [&] { return screen.text.ends_with("[1] prompt? "); });
  REQUIRE(write(pipes.out.get(), "z\n", 2) == 2);
  run_until(context, [&] { return screen.text.ends_with("z\n"); });
  CHECK(screen.text.ends_with("\n[0] " + std::string(95, 'y') + "z\n"));
}

TEST_CASE("on a terminal prefixes have colours and progress lines share one line") {
  PseudoTerminal users = open_screen(true);
  asio::io_context context;
  Reader screen(context, std::move(users.master));
  Output output(context.get_executor(), users.slave.get(), users.slave.get());

  const WorkerPipes zero = add_worker(output, 0, "[0] ");
  const WorkerPipes one = add_worker(output, 1, "[1] ");
  REQUIRE(write(zero.err.get(), "\r1%", 3) == 3);
  std::string expected = "\r\033[36m[0] \033[0m1%";
  run_until(context, [&] { return screen.text == expected; });
  REQUIRE(write(one.err.get(), "\r2%", 3) == 3);
  expected += "\r\033[K\r\033[33m[1] \033[0m2%";
  run_until(context, [&] { return screen.text == expected; });
  REQUIRE(write(zero.out.get(), "line\n", 5) == 5);
  expected += "\r\033[K\033[36m[0] \033[0mline\n\r\033[33m[1] \033[0m2%";
  run_until(context, [&] { return screen.text == expected; });
}

TEST_CASE("ddprun's own lines go between the workers' lines") {
  OutputFixture fixture;
  const WorkerPipes pipes = add_worker(fixture.output, 0, "[0] ");
  REQUIRE(write(pipes.err.get(), "\r50%", 4) == 4);
  run_until(fixture.context, [&] { return fixture.err_reader.text == "\r[0] 50%"; });
  fixture.output.write_own_line("ddprun: hello\n");
  run_until(fixture.context, [&] { return fixture.err_reader.text.ends_with("hello\n"); });
  CHECK(fixture.err_reader.text == "\r[0] 50%\nddprun: hello\n");
}

TEST_CASE("the tail of a dead worker is complete before the loop has run") {
  OutputFixture fixture;
  Child child = fixture.start(7, "seq 9000 >&2; echo boom >&2; exit 3");
  CHECK(WEXITSTATUS(child.wait()) == 3);
  const std::string tail = fixture.output.stderr_end(7).read();
  CHECK(tail.ends_with("8999\n9000\nboom"));
  CHECK(fixture.output.stderr_end(8).read().empty());
  fixture.finish();
  CHECK(by_rank(fixture.err_reader.text)[7].size() == 9001);
}

TEST_CASE("drained means that no process has a pipe open, not even a grandchild") {
  OutputFixture fixture;
  const Pipe hold = make_pipe();
  bool drained = false;
  // The grandchild lives until the test writes to `hold`.
  const std::string held =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(hold.read_end.get());
  Child child = fixture.start(0, "(read line <" + held + "; echo $line) & echo parent");
  CHECK(child.wait() == 0);
  fixture.output.when_drained([&] { drained = true; });
  run_until(fixture.context, [&] { return fixture.out_reader.text == "[0] parent\n"; });
  fixture.context.poll();
  CHECK(!drained);
  REQUIRE(write(hold.write_end.get(), "late\n", 5) == 5);
  run_until(fixture.context, [&] { return drained; });
  fixture.finish();
  CHECK(fixture.out_reader.text == "[0] parent\n[0] late\n");
}

TEST_CASE("a new round starts with new workers, whatever the old pipes do") {
  OutputFixture fixture;
  const WorkerPipes old = add_worker(fixture.output, 0, "[old] ");
  REQUIRE(write(old.out.get(), "unread\n", 7) == 7);
  fixture.output.remove_workers();
  Child child = fixture.start(0, "echo new");
  fixture.finish();
  CHECK(fixture.out_reader.text == "[0] new\n");
}

TEST_CASE("each round may have big pipes if much is written") {
  OutputFixture fixture;
  const std::string much(60'000, 'x');
  for (int round = 0; round < 3; ++round) {
    std::vector<WorkerPipes> pipes;
    for (int rank = 0; rank < 8; ++rank) {  // they have 16 pipes
      const WorkerPipes& worker = pipes.emplace_back(add_worker(fixture.output, rank, ""));
      for (const Fd* fd : {&worker.out, &worker.err}) {
        REQUIRE(write(fd->get(), much.data(), much.size()) == 60'000);
      }
    }
    pipes.front().err.reset();
    run_until(fixture.context,
              [&] { return fcntl(pipes.back().err.get(), F_GETPIPE_SZ) == 1024 * 1024; });
    CHECK(fcntl(pipes.front().out.get(), F_GETPIPE_SZ) == 1024 * 1024);
    fixture.output.remove_workers();
  }
}

TEST_CASE("a regular file gets all output in order, after its previous contents") {
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
