// SPDX-License-Identifier: Apache-2.0
// What tests of Output put around it: workers at one side, readers at the other.
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

using launcher::Output;
using launcher::Relay;

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Pipe make_pipe();

struct WorkerPipes {
  Fd out;
  Fd err;
};

/// A worker's pipes, whose other ends `output` reads.
WorkerPipes add_worker(Output& output, int rank, const std::string& prefix,
                       Relay relay = Relay::lines);

/// Reads all that comes, on the test's io_context: the user's side of stdout.
class Reader {
 public:
  Reader(boost::asio::io_context& context, Fd fd) : stream_(context, fd.release()) { read(); }

  std::string text;

 private:
  void read();

  boost::asio::posix::stream_descriptor stream_;
  std::array<char, 65536> buffer_;
};

/// A shell script whose stdout and stderr are `pipes`, which it takes away.
class Child {
 public:
  Child(const std::string& script, WorkerPipes pipes);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) wait();
  }

  /// Waits for its end; the raw status.
  int wait();

 private:
  pid_t pid_;
};

/// Runs the loop until `condition`; a failure after a generous time.
template <class Condition>
void run_until(boost::asio::io_context& context, Condition condition) {
  context.restart();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) FAIL("it never happens");
    context.run_one_until(deadline);
  }
}

void run_until_drained(boost::asio::io_context& context, Output& output);

/// An Output between two pipes, with a reader at each.
struct Stage {
  explicit Stage(Pipe out_pipe = make_pipe(), Pipe err_pipe = make_pipe());

  Child start(int rank, const std::string& script, Relay relay = Relay::lines);

  /// Until everything has arrived at the readers.
  void finish();

  boost::asio::io_context context{1};
  Fd out;
  Fd err;
  Reader out_reader;
  Reader err_reader;
  Output output;
};

/// Each rank's lines, without their prefix "[rank] ". Fails on a line without one.
std::map<int, std::vector<std::string>> by_rank(const std::string& text);

}  // namespace ddprun::tests
