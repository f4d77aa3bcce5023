// SPDX-License-Identifier: Apache-2.0
// Readers of ddprun's output that stop reading, close, or never existed, and log files whose disk
// stalls.
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>

#include "base/log.h"
#include "launcher/output/output.h"
#include "launcher/process/terminal.h"
#include "tests/catch.h"
#include "tests/launcher/output/output_fixture.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace ddprun::tests;
using namespace std::chrono_literals;
namespace asio = boost::asio;

/// Writes to `fd` and runs ready handlers until all buffers are full. Returns the number of bytes.
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

size_t counted(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Pipe make_socket_pair() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

TEST_CASE("output left in a pseudo-terminal waits for a slow reader, too") {
  Pipe pipe = make_pipe();
  fcntl(pipe.write_end.get(), F_SETPIPE_SZ, 4096);
  asio::io_context context;
  Output output(context.get_executor(), pipe.write_end.get(), pipe.write_end.get());
  PseudoTerminal terminal = must(open_pseudo_terminal({}));
  output.add_worker(0, "", Buffering::none, std::move(terminal.master), Fd());
  const std::string own(ConsoleWriter::kFull + 5'000, 'x');
  output.write_own_line(own + "\n");
  const size_t accepted = fill(context, terminal.slave.get());
  CHECK(accepted > 8'000);  // each read makes the output full again
  output.workers_are_gone();
  Reader reader(context, std::move(pipe.read_end));
  run_until_drained(context, output);
  run_until(context, [&] { return reader.text.size() > own.size() + accepted; });
  CHECK(reader.text.size() == own.size() + 1 + accepted);
}

TEST_CASE("a reader that stops blocks the worker but not ddprun, with bounded memory") {
  Pipe pipe = GENERATE(false, true) ? make_socket_pair() : make_pipe();
  asio::io_context context;
  Output output(context.get_executor(), pipe.write_end.get(), pipe.write_end.get());
  WorkerPipes pipes = add_worker(output, 0, "[0] ");

  const size_t accepted = fill(context, pipes.out.get());
  CHECK(accepted < (size_t{2} << 20));  // the worker's pipe holds 1 MiB of it

  INFO("the flags are shared with the user's shell");
  CHECK((fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK) == 0);

  SECTION("when it reads again, everything arrives") {
    pipes = {};
    Reader reader(context, std::move(pipe.read_end));
    run_until_drained(context, output);
    const size_t lines = (accepted + 24) / 25;  // the last one may have been cut by the full pipe
    const size_t expected = accepted + 4 * lines + (accepted % 25 == 0 ? 0 : 1);
    run_until(context, [&] { return reader.text.size() >= expected; });
    CHECK(by_rank(reader.text)[0].size() == lines);
  }
  SECTION("own lines wait up to a bound, and dropped lines are counted") {
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
  SECTION("after drop_stopped_readers a reader that was only slow gets everything") {
    pipes = {};
    output.drop_stopped_readers();
    Reader reader(context, std::move(pipe.read_end));
    run_until_drained(context, output);
    const size_t lines = (accepted + 24) / 25;
    run_until(context, [&] { return by_rank(reader.text)[0].size() >= lines; });
    CHECK(reader.text.find("lost") == reader.text.npos);
  }
  SECTION("after drop_stopped_readers nothing waits for the reader") {
    pipes = {};
    output.drop_stopped_readers();
    run_until_drained(context, output);
  }
  SECTION("a dropped reader that reads again gets whole lines, and the loss is reported") {
    pipes = {};
    output.drop_stopped_readers();
    run_until_drained(context, output);
    log::set_writer([&](std::string_view line) { output.write_own_line(line); });
    Reader reader(context, std::move(pipe.read_end));
    run_until(context, [&] { return reader.text.find("was not read") != reader.text.npos; });
    WorkerPipes later = add_worker(output, 1, "[1] ");
    REQUIRE(write(later.out.get(), "after\n", 6) == 6);
    later = {};
    run_until_drained(context, output);
    run_until(context, [&] { return reader.text.ends_with("[1] after\n"); });
    log::set_writer(nullptr);
    CHECK(reader.text.find("\nddprun: some output is lost: stdout was not read") !=
          reader.text.npos);
    CHECK(reader.text.find("\n[1] after\n") != reader.text.npos);
  }
  SECTION("the last flush ends after its limit") {
    output.finish(10ms);
    pipes = {};
    pipe.read_end.reset();
  }
}

/// A TCP connection whose reader has left data unread: the next write fails with ECONNRESET.
Fd make_reset_connection(asio::io_context& context) {
  using asio::ip::tcp;
  tcp::acceptor port(context, {asio::ip::address_v4::loopback(), 0});
  tcp::socket reader(context);
  reader.connect(port.local_endpoint());
  tcp::socket writer = port.accept();
  reader.set_option(asio::socket_base::linger(true, 0));
  reader.close();
  pollfd end{writer.native_handle(), 0, 0};
  REQUIRE(poll(&end, 1, -1) == 1);
  return Fd(writer.release());
}

TEST_CASE("a terminal or connection that is gone is a closed reader, not an error") {
  asio::io_context context;
  Fd reader, stdout_fd;
  SECTION("a terminal that goes later, or was gone before") {
    PseudoTerminal terminal = must(open_pseudo_terminal({}));
    if (GENERATE(true, false)) reader = std::move(terminal.master);
    stdout_fd = std::move(terminal.slave);
  }
  SECTION("a connection") {
    stdout_fd = make_reset_connection(context);
  }
  const Pipe err = make_pipe();
  Output output(context.get_executor(), stdout_fd.get(), err.write_end.get());
  reader.reset();
  WorkerPipes pipes = add_worker(output, 0, "[0] ");
  REQUIRE(write(pipes.out.get(), "lost\n", 5) == 5);
  pipes = {};
  run_until_drained(context, output);
  output.finish(0ms);
  CHECK(output.write_error().empty());
}

TEST_CASE("a reader that was given up gets all lines of the next round") {
  Pipe pipe = GENERATE(false, true) ? make_socket_pair() : make_pipe();
  asio::io_context context;
  Output output(context.get_executor(), pipe.write_end.get(), pipe.write_end.get());
  WorkerPipes killed = add_worker(output, 0, "[0] ");
  fill(context, killed.out.get());
  killed = {};
  output.drop_stopped_readers();
  run_until_drained(context, output);

  log::set_writer([&](std::string_view line) { output.write_own_line(line); });
  output.remove_workers();
  WorkerPipes next = add_worker(output, 1, "[1] ");
  const size_t accepted = fill(context, next.out.get());
  CHECK(accepted < (size_t{2} << 20));  // it waits
  next = {};
  Reader reader(context, std::move(pipe.read_end));
  const size_t lines = (accepted + 24) / 25;
  run_until_drained(context, output);
  run_until(context, [&] { return counted(reader.text, "\n[1] ") >= lines; });
  log::set_writer(nullptr);
  CHECK(counted(reader.text, "\nddprun: some output is lost: stdout was not read") == 1);
}

TEST_CASE("lost output of stdout is reported, even if stderr is read again only later") {
  asio::io_context context;
  Pipe out = make_pipe(), err = make_pipe();
  Output output(context.get_executor(), out.write_end.get(), err.write_end.get());
  WorkerPipes pipes = add_worker(output, 0, "[0] ");
  fill(context, pipes.out.get());
  fill(context, pipes.err.get());
  pipes = {};
  output.drop_stopped_readers();
  run_until_drained(context, output);
  log::set_writer([&](std::string_view line) { output.write_own_line(line); });

  std::string text;
  SECTION("while ddprun runs") {
    Reader out_reader(context, std::move(out.read_end));
    run_until(context, [&] { return out_reader.text.ends_with('\n'); });  // the cut line is ended
    Reader err_reader(context, std::move(err.read_end));
    run_until(context, [&] { return err_reader.text.find("stderr was") != std::string::npos; });
    text = err_reader.text;
  }
  SECTION("when ddprun ends") {
    std::string buffer(1 << 20, '\0');
    REQUIRE(read(err.read_end.get(), buffer.data(), buffer.size()) > 0);
    fcntl(err.read_end.get(), F_SETFL, O_NONBLOCK);
    output.finish(0ms);
    const ssize_t size = read(err.read_end.get(), buffer.data(), buffer.size());
    REQUIRE(size > 0);
    text = buffer.substr(0, static_cast<size_t>(size));
  }
  log::set_writer(nullptr);
  for (const char* stream : {"stdout", "stderr"}) {
    const std::string line =
        std::string("\nddprun: some output is lost: ") + stream + " was not read";
    CHECK(text.find(line) != std::string::npos);
  }
}

/// A log file that stalls after 64 KiB, until it is read: a named pipe.
struct StallingFile {
  StallingFile() {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    read_end.reset(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    file = std::make_shared<LogFile>(must(LogFile::open(path)));
  }
  StallingFile(const StallingFile&) = delete;
  ~StallingFile() { unlink(path.c_str()); }

  bool is_full() const {
    pollfd room{file->fd(), POLLOUT, 0};
    return poll(&room, 1, 0) == 0;
  }

  std::string path = "/tmp/ddprun-stalls-" + std::to_string(getpid());
  Fd read_end;
  std::shared_ptr<LogFile> file;
};

TEST_CASE("a log file that stalls slows only the worker whose output it gets") {
  OutputFixture fixture;
  StallingFile stalling;
  StreamSink sink;
  sink.file = stalling.file;
  Child slowed("seq 300000", add_worker(fixture.output, 0, "[0] ", Buffering::line, sink));
  REQUIRE(mkfifo((stalling.path + ".other").c_str(), 0600) == 0);
  const Fd other_end(open((stalling.path + ".other").c_str(), O_RDWR | O_CLOEXEC));
  sink.file = std::make_shared<LogFile>(must(LogFile::open(stalling.path + ".other")));
  unlink((stalling.path + ".other").c_str());
  Child with_file("seq 10", add_worker(fixture.output, 1, "[1] ", Buffering::line, sink));
  Child without_file("seq 100000", add_worker(fixture.output, 2, "[2] "));
  run_until(fixture.context, [&] {
    return fixture.out_reader.text.find("[1] 10\n") != std::string::npos &&
           fixture.out_reader.text.find("[2] 100000\n") != std::string::npos;
  });
  CHECK(fixture.out_reader.text.find("[0] 300000\n") == std::string::npos);

  Reader file(fixture.context, std::move(stalling.read_end));
  run_until(fixture.context, [&] { return file.text.ends_with("\n300000\n"); });
  CHECK(slowed.wait() == 0);
  fixture.finish();
  auto lines = by_rank(fixture.out_reader.text);
  CHECK(lines[0].size() == 300'000);
  std::string shown;
  for (const std::string& line : lines[0]) shown += line + "\n";
  CHECK((shown == file.text));
}

TEST_CASE("after drop_stopped_readers nothing waits for a log file that stalls") {
  OutputFixture fixture;
  StallingFile stalling;
  StreamSink sink;
  sink.file = stalling.file;
  sink.shown = false;
  Child child("yes | head -c 200000", add_worker(fixture.output, 0, "[0] ", Buffering::line, sink));
  run_until(fixture.context, [&] {
    fixture.context.run_for(1ms);
    return stalling.is_full();
  });
  std::string warnings;
  log::set_writer([&](std::string_view line) { warnings += line; });
  fixture.output.drop_stopped_readers();
  run_until_drained(fixture.context, fixture.output);
  log::set_writer(nullptr);
  CHECK(warnings ==
        "ddprun: log files have gaps: their disk had stalled while workers were killed\n");

  fixture.output.remove_workers();
  Child next = fixture.start(1, "echo next");
  run_until_drained(fixture.context, fixture.output);
  run_until(fixture.context, [&] { return fixture.out_reader.text.ends_with("[1] next\n"); });
}

TEST_CASE("workers continue and succeed when the reader has closed") {
  OutputFixture fixture;
  Pipe gone = make_pipe();
  Output output(fixture.context.get_executor(), gone.write_end.get(), fixture.err.get());
  Child child("seq 1000000; echo done >&2", add_worker(output, 0, "[0] "));
  gone.read_end.reset();
  run_until_drained(fixture.context, output);
  CHECK(child.wait() == 0);
  fixture.finish();
  CHECK(fixture.err_reader.text == "[0] done\n");
}

TEST_CASE("output to a pipe without a reader, or to a closed stdout, is discarded") {
  Pipe gone = make_pipe();
  gone.read_end.reset();
  const int out = GENERATE(0, 1) == 0 ? gone.write_end.get() : 999;
  asio::io_context context;
  Output output(context.get_executor(), out, out);
  Child child("seq 100000; seq 100000 >&2", add_worker(output, 0, "[0] "));
  run_until_drained(context, output);
  CHECK(child.wait() == 0);
}

TEST_CASE("a full disk is reported once and stops no worker") {
  OutputFixture fixture;
  const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  Output output(fixture.context.get_executor(), full.get(), fixture.err.get());
  log::set_writer([&](std::string_view line) { output.write_own_line(line); });
  Child child("seq 100000; echo done >&2", add_worker(output, 0, "[0] "));
  run_until_drained(fixture.context, output);
  log::set_writer(nullptr);
  CHECK(child.wait() == 0);
  fixture.finish();
  const std::string warning =
      "ddprun: some output is lost: cannot write to stdout: No space left on device\n";
  const std::string& text = fixture.err_reader.text;
  CHECK(text.find(warning) != text.npos);
  CHECK(text.find("lost") == text.rfind("lost"));
  CHECK(text.find("[0] done\n") != text.npos);
}

}  // namespace
}  // namespace ddprun::launcher
