// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/output.h"

#include <cstdlib>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/launcher/output/stage.h"

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
  const std::string words = stage.output.stderr_tail(7);
  CHECK(words.ends_with("8999\n9000\nboom"));
  CHECK(stage.output.stderr_tail(8).empty());
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
