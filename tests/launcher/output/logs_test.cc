// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/output.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::launcher;
namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

namespace {

struct Scratch {
  Scratch() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  Scratch(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }

  std::string path = (fs::temp_directory_path() / "ddprun-test-XXXXXX").string();
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::shared_ptr<LogFile> log_file(const std::string& path) {
  return std::make_shared<LogFile>(must(LogFile::open(path)));
}

/// The selected lines of `bytes`, fed in pieces of `piece` bytes.
std::string filtered(const Texts& texts, const std::string& bytes, size_t piece) {
  LineFilter filter("[3] ", texts);
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += piece) filter.feed(bytes.substr(at, piece), out);
  filter.finish(out);
  return out;
}

/// An Output whose stdout and stderr are files in a directory.
class Console {
 public:
  /// Adds a worker whose whole stdout, or stderr, is `bytes`.
  void add_worker(int rank, const std::string& bytes, StreamSink sink, bool on_stderr = false) {
    Fd ends[2];
    Fd read_ends[2];
    for (size_t i = 0; i < 2; ++i) {
      int made[2];
      REQUIRE(pipe2(made, O_CLOEXEC) == 0);
      read_ends[i].reset(made[0]);
      ends[i].reset(made[1]);
    }
    REQUIRE(bytes.size() < 65536);  // a pipe's capacity
    const auto size = static_cast<ssize_t>(bytes.size());
    REQUIRE(::write(ends[on_stderr ? 1 : 0].get(), bytes.data(), bytes.size()) == size);
    std::array<StreamSink, 2> sinks;
    sinks[on_stderr ? 1 : 0] = std::move(sink);
    output_.add_worker(rank, "[" + std::to_string(rank) + "] ", Buffering::line,
                       std::move(read_ends[0]), std::move(read_ends[1]), std::move(sinks[0]),
                       std::move(sinks[1]));
  }

  /// Runs until all is written. Returns the contents of stdout and stderr.
  std::pair<std::string, std::string> finish() {
    output_.when_drained([this] { context_.stop(); });
    context_.run();
    output_.finish(std::chrono::seconds(1));
    return {content(scratch_.file("out")), content(scratch_.file("err"))};
  }

  std::string file(const std::string& name) const { return scratch_.file(name); }
  Output& output() { return output_; }

 private:
  static Fd create(const std::string& path) {
    Fd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    REQUIRE(fd);
    return fd;
  }

  Scratch scratch_;
  Fd out_ = create(scratch_.file("out"));
  Fd err_ = create(scratch_.file("err"));
  boost::asio::io_context context_;
  Output output_{context_.get_executor(), out_.get(), err_.get()};
};

}  // namespace

TEST_CASE("lines with one of the texts are selected, however they arrive") {
  const size_t piece = GENERATE(1, 2, 5, 1000);
  const std::string bytes = "loss 0.5\nnothing\n\nan ERROR here\r\nlast loss";

  CHECK(filtered({"loss", "ERROR"}, bytes, piece) ==
        "[3] loss 0.5\n[3] an ERROR here\r\n[3] last loss\n");
  CHECK(filtered({"absent"}, bytes, piece).empty());
}

TEST_CASE("an endless line is filtered in pieces of bounded size") {
  const std::string longest(kMaxLine, 'x');

  CHECK(filtered({"x"}, longest + longest + "xy\n", 4096) ==
        "[3] " + longest + "\n[3] " + longest + "\n[3] xy\n");
  CHECK(filtered({"x"}, longest + "\n", 4096) == "[3] " + longest + "\n");
}

TEST_CASE("a log file is appended to, and its end can be read") {
  const Scratch scratch;
  const auto file = log_file(scratch.file("log"));
  must(file->append("one\n"));
  must(log_file(scratch.file("log"))->append("two\n"));
  must(file->append("three"));

  CHECK(content(scratch.file("log")) == "one\ntwo\nthree");
  CHECK(file->tail(7) == "o\nthree");
  CHECK(file->tail(100) == "one\ntwo\nthree");
  CHECK(log_file("/dev/null")->tail(100).empty());
  CHECK(LogFile::open(scratch.file("missing/log"))
            .error()
            .message.starts_with("cannot open " + scratch.file("missing/log") + ": "));
}

TEST_CASE("a log file does not follow a link that somebody else has created") {
  const Scratch scratch;
  fs::create_symlink(scratch.file("elsewhere"), scratch.file("log"));
  CHECK_FALSE(LogFile::open(scratch.file("log")).has_value());
  CHECK_FALSE(fs::exists(scratch.file("elsewhere")));
}

TEST_CASE("a file has a worker's bytes unchanged, the console has its lines") {
  Console console;
  const std::string bytes("a\rb\rc\n\0\xff\npartial", 16);
  StreamSink sink;
  sink.file = log_file(console.file("log"));
  console.add_worker(0, bytes, std::move(sink));
  const auto [out, err] = console.finish();

  CHECK(content(console.file("log")) == bytes);
  CHECK(out == std::string("[0] a\r[0] b\r[0] c\n[0] \0\xff\n[0] partial\n", 37));
}

TEST_CASE("a stream that is not shown goes only to its file, and its tail is known") {
  Console console;
  StreamSink sink;
  sink.file = log_file(console.file("log"));
  sink.shown = false;
  console.add_worker(0, "it broke\nhere\n", std::move(sink), true);
  const auto [out, err] = console.finish();

  CHECK(content(console.file("log")) == "it broke\nhere\n");
  CHECK(err.empty());
  CHECK(console.output().stderr_end(0).read() == "it broke\nhere");
}

TEST_CASE("the tail of a worker that writes to a file itself is read from the file") {
  Console console;
  StreamSink sink;
  sink.file = log_file(console.file("log"));
  sink.direct = true;
  must(sink.file->append(std::string(100'000, 'x') + "\nthe cause\nthe end\n"));
  console.output().add_worker(5, "", Buffering::line, Fd(), Fd(), {}, std::move(sink));

  CHECK(console.output().stderr_end(5).read() == "the cause\nthe end");
  console.finish();  // nothing to wait for
}

TEST_CASE("selected lines of all workers are in one file, with their prefixes") {
  Console console;
  const Texts texts = {"loss"};
  StreamSink sink;
  sink.duplicates = log_file(console.file("picked"));
  sink.filters = &texts;
  console.add_worker(0, "loss 1\nrest\n", sink);
  console.add_worker(11, "rest\nloss 2", sink);
  console.finish();

  const std::string picked = content(console.file("picked"));
  CHECK((picked == "[0] loss 1\n[11] loss 2\n" || picked == "[11] loss 2\n[0] loss 1\n"));
}

TEST_CASE("a full disk is reported once for all log files, and the console continues") {
  Console console;
  Texts warnings;
  log::set_writer([&](std::string_view line) { warnings.emplace_back(line); });
  for (int rank = 0; rank < 3; ++rank) {
    StreamSink sink;
    sink.file = log_file("/dev/full");
    console.add_worker(rank, "line\n", std::move(sink));
  }
  const auto [out, err] = console.finish();
  log::set_writer({});

  CHECK(out == "[0] line\n[1] line\n[2] line\n");
  CHECK(warnings == Texts{"ddprun: log files will have gaps: cannot write to /dev/full: No space "
                          "left on device\n"});
}
