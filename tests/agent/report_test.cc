// SPDX-License-Identifier: Apache-2.0
#include "agent/report.h"

#include <algorithm>
#include <csignal>

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

using rendezvous::Failure;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int exited(int code) {
  return code << 8;
}  // as wait(2) stores it
constexpr int killed_by(int signal) {
  return signal;
}

Failure segfault() {
  return {2,
          killed_by(SIGSEGV),
          48121,
          41.37,
          "gpu-07",
          "",
          "step 812: loss nan\nAddressSanitizer: SEGV on unknown address 0x000000000010"};
}

StopSummary stopped(std::vector<int> ranks) {
  return {SIGTERM, std::move(ranks), {}, milliseconds(12)};
}

auto lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') + 1;
}

TEST_CASE("a failure that ends the job is told from the cause to the exit code") {
  CHECK(failure_report(segfault(), 0, stopped({0, 1, 3}), 0, 0) ==
        "rank 2 failed first: killed by SIGSEGV after 41.3 s (host gpu-07, pid 48121, round 0)\n"
        "its last words on stderr:\n"
        "  step 812: loss nan\n"
        "  AddressSanitizer: SEGV on unknown address 0x000000000010\n"
        "ranks 0, 1, 3 were stopped by ddprun (SIGTERM, gone after 12 ms)\n"
        "exit code 139; no restarts were asked for (--max_restarts N)");
}

TEST_CASE("a silent worker alone on its node has a short report") {
  const Failure failure = {0, exited(3), 77, 0.004, "gpu-07", "", ""};
  CHECK(failure_report(failure, 4, {}, 3, 3) ==
        "rank 0 failed first: exit 3 after 4 ms (host gpu-07, pid 77, round 4)\n"
        "exit code 3; no restart left (3 of 3 used)");
}

TEST_CASE("ranks that outlived the grace are named") {
  StopSummary stop = stopped({1, 2, 3});
  stop.killed = {3};
  stop.took = seconds(30);
  const Failure failure = {0, exited(1), 77, 1, "h", "", ""};
  CHECK(failure_report(failure, 0, stop, 0, 0)
            .find("ranks 1-3 were stopped by ddprun (SIGTERM, gone after 30 s; rank 3 needed "
                  "SIGKILL)") != std::string::npos);

  stop.signal = SIGKILL;  // there was no grace to outlive
  stop.killed = stop.stopped;
  CHECK(failure_report(failure, 0, stop, 0, 0).find("needed") == std::string::npos);
}

TEST_CASE("a failure after which the job goes on is one line with the worker's last one") {
  const Failure failure = {5,
                           exited(1),
                           9120,
                           3 * 3600 + 12 * 60 + 5,
                           "gpu-08",
                           "",
                           "Traceback\nRuntimeError: CUDA error: uncorrectable ECC error\n\n"};
  CHECK(failure_line(failure, 0) ==
        "rank 5 failed first: exit 1 after 3 h 12 min (host gpu-08, pid 9120, round 0): "
        "RuntimeError: CUDA error: uncorrectable ECC error");

  rendezvous::Layout layout;
  layout.round = 1;
  layout.restarts = 1;
  layout.node_count = 2;
  layout.world_size = 16;
  CHECK(restart_line(layout, 3, milliseconds(38)) ==
        "restart 1 of 3: round 1 with 2 nodes, 16 workers, ready 38 ms after the failure");
}

TEST_CASE("what is known beyond the signal is part of the cause") {
  Failure failure = {1, killed_by(SIGKILL), 9, 96, "gpu-07", "out of memory", "epoch 3"};
  const std::string cause =
      "rank 1 failed first: killed by SIGKILL after 96 s (host gpu-07, pid 9, round 0): "
      "out of memory";
  CHECK(failure_line(failure, 0) == cause);
  CHECK(failure_report(failure, 0, {}, 0, 0).find(cause + "\n") == 0);
  CHECK(failure_report(failure, 0, {}, 0, 0).find("dmesg") == std::string::npos);

  failure.cause = "";
  CHECK(failure_report(failure, 0, {}, 0, 0).find("ddprun did not send this signal") !=
        std::string::npos);
}

TEST_CASE("a thousand ranks and endless last words stay on one screen") {
  Failure failure = segfault();
  failure.last_words.clear();
  for (int i = 0; i < 500; ++i) failure.last_words += "line " + std::to_string(i) + "\n";
  std::vector<int> others;
  for (int rank = 0; rank < 1000; rank += 2) others.push_back(rank);

  const std::string report = failure_report(failure, 0, stopped(others), 0, 0);
  CHECK(lines(report) <= 20);
  CHECK(report.find("  line 499\n") != std::string::npos);
  CHECK(report.find(" 22 and 488 more were stopped by ddprun") != std::string::npos);

  failure.last_words = std::string(100'000, 'x');
  CHECK(failure_report(failure, 0, {}, 0, 0).size() < 1000);
  CHECK(failure_line(failure, 0).size() < 1000);
}

TEST_CASE("a worker's bytes cannot garble the report") {
  Failure failure = segfault();
  failure.last_words =
      "\x1b[2J\x1b]0;owned\x07 20%\r30%\b\n\ttabbed \xff \xc2\x9b"
      "1m h\xc3\xa9\n";
  failure.host = "evil\nddprun: all is well";
  const std::string report = failure_report(failure, 0, {}, 0, 0);
  CHECK(report.find("  \\x1b[2J\\x1b]0;owned\\x07 20%\\x0d30%\\x08\n") != std::string::npos);
  CHECK(report.find("  \ttabbed \\xff \\xc2\\x9b1m h\xc3\xa9\n") != std::string::npos);
  CHECK(report.find("(host evil ddprun: all is well, pid") != std::string::npos);
  CHECK(report.find('\x1b') == std::string::npos);
}

TEST_CASE("a long line is not cut within a character") {
  Failure failure = segfault();
  for (int i = 0; i < 300; ++i) failure.last_words += "\xe2\x82\xac";  // 3 bytes each
  const std::string line = failure_line(failure, 0);
  CHECK(line.substr(line.size() - 6) == "\xe2\x82\xac...");
}

}  // namespace
}  // namespace ddprun::agent
