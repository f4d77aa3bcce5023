// SPDX-License-Identifier: Apache-2.0
#include "agent/job/error_file.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launcher/output/recent_output.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;

const std::string kRecord = R"({"message": {"message": "RuntimeError: loss is nan",
  "extraInfo": {"py_callstack": "Traceback\n  File \"train.py\"\nRuntimeError: loss is nan\n",
                "timestamp": "1700000000"}}})";
const std::string kFlat = R"({"message": "it broke", "timestamp": 1700000000})";

rendezvous::Failure failure_of(const std::string& file, int wait_status) {
  const WorkerException exception = parse_error_file(file).value();
  rendezvous::Failure failure;
  failure.wait_status = wait_status;
  failure.exception = exception.message;
  failure.traceback = exception.traceback;
  return failure;
}

class ScratchDirectory {
 public:
  ScratchDirectory() {
    char name[] = "/tmp/ddprun-errors-XXXXXX";
    if (mkdtemp(name) == nullptr) FAIL("no temporary directory");
    path_ = name;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }

  std::string file() const { return path_ + "/error.json"; }
  auto count() const { return std::distance(std::filesystem::directory_iterator(path_), {}); }

 private:
  std::string path_;
};

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("both forms of an error file are read") {
  const auto record = parse_error_file(kRecord);
  REQUIRE(record);
  CHECK(record->message == "RuntimeError: loss is nan");
  CHECK(record->traceback == "Traceback\n  File \"train.py\"\nRuntimeError: loss is nan");

  const auto flat = parse_error_file(kFlat);
  REQUIRE(flat);
  CHECK(flat->message == "it broke");
  CHECK(flat->traceback.empty());
}

TEST_CASE("a message is read although other fields are missing or invalid") {
  for (const char* file :
       {R"({"message": "x"})", R"({"message": "x", "timestamp": "soon"})",
        R"({"message": {"message": "x"}})", R"({"message": {"message": "x", "extraInfo": [1]}})",
        R"({"message": {"message": "x", "extraInfo": {"py_callstack": 7}}})",
        R"({"message": {"message": "x", "errorCode": "one"}})",
        R"({"message": "x", "more": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]})",
        "\xef\xbb\xbf{\"message\":\"x\"}", R"({"message": "x: \n"})"}) {
    INFO(file);
    const auto exception = parse_error_file(file);
    REQUIRE(exception);
    CHECK(exception->message == "x");
    CHECK(exception->traceback.empty());
  }
}

TEST_CASE("a file without a valid message gives no exception") {
  for (const std::string file :
       {"", " ", "null", "17", "[]", "{}", "RuntimeError: x", R"({"message": "x")",
        R"({"message": 5})", R"({"message": null})", R"({"message": ["x"]})", R"({"message": " "})",
        R"({"message": {"message": 5}})", R"({"message": {"message": {"message": "x"}}})",
        R"({"message": {"extraInfo": {"py_callstack": "x"}}})", "{\"message\": \"\xff\"}",
        R"({"message": "x"} {"message": "y"})"}) {
    INFO(file);
    CHECK_FALSE(parse_error_file(file));
  }
  for (size_t size = 0; size < kRecord.size(); ++size) {
    INFO(size);
    CHECK_FALSE(parse_error_file(kRecord.substr(0, size)));
  }
  CHECK_FALSE(parse_error_file(std::string(kMaxErrorFile, '[')));
  std::string largest(kFlat);
  largest.resize(kMaxErrorFile, ' ');
  CHECK(parse_error_file(largest));
  CHECK_FALSE(parse_error_file(largest + ' '));
}

TEST_CASE("a long message keeps its beginning, a long traceback its end") {
  std::string traceback;
  for (int i = 0; i < 5'000; ++i) traceback += "frame " + std::to_string(i) + "\n";
  const json file = {{"message",
                      {{"message", "E: " + std::string(500'000, 'x')},
                       {"extraInfo", {{"py_callstack", traceback}}}}}};
  const auto exception = parse_error_file(file.dump());
  REQUIRE(exception);
  CHECK(exception->message.starts_with("E: xxx"));
  CHECK(exception->message.size() == kMaxExceptionMessage + 3);
  CHECK(exception->traceback.starts_with("frame "));
  CHECK(exception->traceback.ends_with("\nframe 4999"));
  CHECK(exception->traceback.size() <= launcher::StderrTail::kBytes);
}

TEST_CASE("only a regular file of at most the limit is read") {
  const ScratchDirectory scratch;
  CHECK(read_error_file(scratch.file()).empty());
  CHECK(read_error_file("").empty());
  CHECK(read_error_file("/tmp").empty());
  CHECK(read_error_file("/dev/zero").empty());

  put(scratch.file(), kFlat);
  CHECK(read_error_file(scratch.file()) == kFlat);
  put(scratch.file(), std::string(kMaxErrorFile, ' '));
  CHECK(read_error_file(scratch.file()).size() == kMaxErrorFile);
  put(scratch.file(), std::string(kMaxErrorFile + 1, ' '));
  CHECK(read_error_file(scratch.file()).empty());

  std::filesystem::remove(scratch.file());
  REQUIRE(mkfifo(scratch.file().c_str(), 0600) == 0);
  CHECK(read_error_file(scratch.file()).empty());
}

TEST_CASE("ddprun's own error file is the worker's with its exit code, as under torchrun") {
  const auto exited = json::parse(error_file_for_caller(failure_of(kRecord, 3 << 8), kRecord, 0));
  json expected = json::parse(kRecord);
  expected["message"]["errorCode"] = 3;
  CHECK(exited == expected);

  const auto killed = json::parse(error_file_for_caller(failure_of(kRecord, SIGSEGV), kRecord, 0));
  CHECK(killed["message"]["errorCode"] == -SIGSEGV);

  CHECK(error_file_for_caller(failure_of(kFlat, 3 << 8), kFlat, 0) == kFlat);
}

TEST_CASE("ddprun's own error file for a worker of another node is made of that node's failure") {
  const auto file =
      json::parse(error_file_for_caller(failure_of(kRecord, 3 << 8), "", 1'700'000'001));
  json expected = json::parse(kRecord);
  expected["message"]["errorCode"] = 3;
  expected["message"]["extraInfo"]["py_callstack"] =
      "Traceback\n  File \"train.py\"\nRuntimeError: loss is nan";
  expected["message"]["extraInfo"]["timestamp"] = "1700000001";
  CHECK(file == expected);

  CHECK(error_file_for_caller(rendezvous::Failure(), "", 0).empty());
}

TEST_CASE("an error file is replaced atomically, and only if it is a regular file") {
  const ScratchDirectory scratch;
  must(write_error_file(scratch.file(), kFlat));
  must(write_error_file(scratch.file(), kRecord));
  CHECK(read_error_file(scratch.file()) == kRecord);
  CHECK(scratch.count() == 1);

  const auto no_directory = write_error_file(scratch.file() + "/x/error.json", kFlat);
  REQUIRE(no_directory.has_error());
  CHECK(no_directory.error().message.find("/x/error.json") != std::string::npos);

  std::filesystem::remove(scratch.file());
  REQUIRE(mkfifo(scratch.file().c_str(), 0600) == 0);
  CHECK(write_error_file(scratch.file(), kFlat).has_error());
  CHECK(scratch.count() == 1);
}

TEST_CASE("an error file is never written into a file that another user put in its place") {
  const ScratchDirectory scratch;
  const std::string made = scratch.file() + "." + std::to_string(getpid()) + ".tmp";
  const std::string precious = scratch.file() + ".precious";
  std::ofstream(precious) << "precious";
  SECTION("a symbolic link") {
    REQUIRE(symlink(precious.c_str(), made.c_str()) == 0);
  }
  SECTION("a link") {
    REQUIRE(link(precious.c_str(), made.c_str()) == 0);
  }
  must(write_error_file(scratch.file(), kFlat));
  CHECK(read_error_file(scratch.file()) == kFlat);
  CHECK(read_error_file(precious) == "precious");
  CHECK(scratch.count() == 2);
}

}  // namespace
}  // namespace ddprun::agent
