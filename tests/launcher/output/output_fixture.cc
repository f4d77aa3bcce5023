// SPDX-License-Identifier: Apache-2.0
#include "tests/launcher/output/output_fixture.h"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>

namespace ddprun::tests {
namespace {

namespace asio = boost::asio;

struct IgnoreSigpipe {
  IgnoreSigpipe() { std::signal(SIGPIPE, SIG_IGN); }
} ignore_sigpipe;

}  // namespace

Pipe make_pipe() {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

WorkerPipes add_worker(Output& output, int rank, const std::string& prefix, Buffering buffering,
                       launcher::StreamSink out_sink) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  output.add_worker(rank, prefix, buffering, std::move(out.read_end), std::move(err.read_end),
                    std::move(out_sink));
  return {std::move(out.write_end), std::move(err.write_end)};
}

void Reader::read() {
  stream_.async_read_some(asio::buffer(buffer_), [this](auto error, size_t count) {
    text.append(buffer_.data(), count);
    if (!error) read();
  });
}

Child::Child(const std::string& script, WorkerPipes pipes) : pid_(fork()) {
  if (pid_ != 0) return;
  dup2(pipes.out.get(), 1);
  dup2(pipes.err.get(), 2);
  std::signal(SIGPIPE, SIG_DFL);
  execl("/bin/sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

int Child::wait() {
  int status = -1;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

void run_until_drained(asio::io_context& context, Output& output) {
  bool drained = false;
  output.when_drained([&] { drained = true; });
  run_until(context, [&] { return drained; });
}

OutputFixture::OutputFixture(Pipe out_pipe, Pipe err_pipe)
    : out(std::move(out_pipe.write_end)),
      err(std::move(err_pipe.write_end)),
      out_reader(context, std::move(out_pipe.read_end)),
      err_reader(context, std::move(err_pipe.read_end)),
      output(context.get_executor(), out.get(), err.get()) {}

Child OutputFixture::start(int rank, const std::string& script, Buffering buffering) {
  const std::string prefix = buffering == Buffering::line ? "[" + std::to_string(rank) + "] " : "";
  return Child(script, add_worker(output, rank, prefix, buffering));
}

void OutputFixture::finish() {
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

}  // namespace ddprun::tests
