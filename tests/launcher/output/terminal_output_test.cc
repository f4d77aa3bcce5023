// SPDX-License-Identifier: Apache-2.0
// Workers that write to pseudo-terminals.
#include <fcntl.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launcher/output/output.h"
#include "launcher/process/terminal.h"
#include "tests/catch.h"
#include "tests/launcher/output/output_fixture.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace ddprun::tests;
namespace asio = boost::asio;

/// Adds a worker whose streams are pseudo-terminals; returns their slaves.
WorkerPipes add_worker_on_terminal(Output& output, int rank, const std::string& prefix) {
  PseudoTerminal out = must(open_pseudo_terminal({}));
  PseudoTerminal err = must(open_pseudo_terminal({}));
  output.add_worker(rank, prefix, prefix.empty() ? Buffering::none : Buffering::line,
                    std::move(out.master), std::move(err.master));
  return {std::move(out.slave), std::move(err.slave)};
}

void put(const Fd& fd, std::string_view text) {
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

TEST_CASE("output to pseudo-terminals arrives whole, until the last worker has ended") {
  OutputFixture fixture;
  std::vector<Child> children;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string prefix = "[" + std::to_string(rank) + "] ";
    children.emplace_back("test -t 1 && test -t 2 && seq 20000; printf 'the end'; kill -9 $$",
                          add_worker_on_terminal(fixture.output, rank, prefix));
  }
  fixture.finish();
  const auto lines = by_rank(fixture.out_reader.text);
  REQUIRE(lines.size() == 2);
  for (const auto& [rank, of_rank] : lines) {
    CHECK(of_rank.size() == 20'001);
    CHECK(of_rank.back() == "the end");
  }
  CHECK(fixture.out_reader.text.find('\r') == std::string::npos);
}

TEST_CASE("sequences that control a terminal are shown, but not kept") {
  OutputFixture fixture;
  {
    const WorkerPipes worker = add_worker_on_terminal(fixture.output, 0, "");
    put(worker.err, "\033[31mlast ");
    put(worker.err, "words\033[0m\n");
    CHECK(fixture.output.stderr_end(0).read() == "last words");
    CHECK(fixture.output.recent_output(0, 0, 100).bytes == "last words\n");
  }
  fixture.finish();
  CHECK(fixture.err_reader.text == "\033[31mlast words\033[0m\n");
}

TEST_CASE("a pseudo-terminal that another process keeps open ends with the workers") {
  OutputFixture fixture;
  const WorkerPipes kept = add_worker_on_terminal(fixture.output, 0, "");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";  // less than a terminal holds
  put(kept.out, text);
  bool drained = false;
  fixture.output.when_drained([&] { drained = true; });
  fixture.context.poll();
  CHECK_FALSE(drained);
  fixture.output.workers_are_gone();
  run_until(fixture.context, [&] { return drained; });
  fixture.finish();
  CHECK(fixture.out_reader.text == text);
}

TEST_CASE("a worker's window is that of ddprun's terminal without the prefix") {
  const PseudoTerminal users = must(open_pseudo_terminal({30, 100}));
  asio::io_context context;
  Output output(context.get_executor(), users.slave.get(), users.slave.get());
  CHECK(output.window(false, "\033[36m[0] \033[0m")->columns == 96);
  CHECK(output.window(true, "r\u00e4nk ")->columns == 95);
  CHECK(output.window(true, std::string(100, 'x'))->columns == 100);  // better than none

  const WorkerPipes worker = add_worker_on_terminal(output, 0, "[0] ");
  set_window_size(users.master.get(), {40, 50});
  output.window_changed();
  for (const Fd* stream : {&worker.out, &worker.err}) {
    const auto window = window_size(stream->get());
    REQUIRE(window);
    CHECK(window->rows == 40);
    CHECK(window->columns == 46);
  }
}

TEST_CASE("without a terminal of ddprun there is no window") {
  OutputFixture fixture;
  CHECK_FALSE(fixture.output.window(false, ""));
  CHECK_FALSE(fixture.output.window(true, ""));
}

}  // namespace
}  // namespace ddprun::launcher
