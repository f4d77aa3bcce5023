// SPDX-License-Identifier: Apache-2.0
// Workers and readers for tests of Output.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/fd.h"
#include "launcher/output/output.h"
#include "tests/catch.h"

namespace ddprun::tests {

using launcher::Buffering;
using launcher::Output;

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Pipe make_pipe();

struct WorkerPipes {
  Fd out;
  Fd err;
};

/// Adds a worker to `output`. Returns the write ends of its pipes. `out_sink` is for its stdout.
WorkerPipes add_worker(Output& output, int rank, const std::string& prefix,
                       Buffering buffering = Buffering::line, launcher::StreamSink out_sink = {});

/// The reader of ddprun's stdout or stderr. Reads all output, on the test's io_context.
class Reader {
 public:
  Reader(boost::asio::io_context& context, Fd fd) : stream_(context, fd.release()) { read(); }

  std::string text;

 private:
  void read();

  boost::asio::posix::stream_descriptor stream_;
  std::array<char, 65536> buffer_;
};

/// A process that runs a shell script with `pipes` as stdout and stderr.
class Child {
 public:
  Child(const std::string& script, WorkerPipes pipes);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) wait();
  }

  /// Waits until it has ended. Returns the status of wait(2).
  int wait();

 private:
  pid_t pid_;
};

/// Runs the loop until `condition`; fails after a minute.
template <class Condition>
void run_until(boost::asio::io_context& context, Condition condition) {
  context.restart();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) FAIL("timed out");
    context.run_one_until(deadline);
  }
}

void run_until_drained(boost::asio::io_context& context, Output& output);

/// An Output that writes to two pipes, each with a reader.
struct OutputFixture {
  explicit OutputFixture(Pipe out_pipe = make_pipe(), Pipe err_pipe = make_pipe());

  Child start(int rank, const std::string& script, Buffering buffering = Buffering::line);

  /// Runs until the readers have all output.
  void finish();

  boost::asio::io_context context{1};
  Fd out;
  Fd err;
  Reader out_reader;
  Reader err_reader;
  Output output;
};

/// Each rank's lines, without their prefix "[rank] ". Fails on a line without a prefix.
std::map<int, std::vector<std::string>> by_rank(const std::string& text);

}  // namespace ddprun::tests
