// SPDX-License-Identifier: Apache-2.0
#include "agent/job/report.h"

#include <algorithm>
#include <csignal>

#include "tests/agent/job/reports.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a failure that ends the job is reported from the cause to the exit code") {
  Failed failed = ended_by(segfault());
  failed.summary =
      "rank 3 failed too (exit 1)\n"
      "ranks 0, 1 were stopped by ddprun (SIGTERM, gone after 12 ms)";
  CHECK(failure_report(failed) ==
        "rank 2 failed first: killed by SIGSEGV after 41.3 s (host gpu-07, pid 48121, round 0)\n"
        "its last words on stderr:\n"
        "  step 812: loss nan\n"
        "  AddressSanitizer: SEGV on unknown address 0x000000000010\n"
        "rank 3 failed too (exit 1)\n"
        "ranks 0, 1 were stopped by ddprun (SIGTERM, gone after 12 ms)\n"
        "exit code 139; no restarts were asked for (--max_restarts N)");
}

TEST_CASE("the line after a stop names ranks that succeeded or failed while stopping") {
  const auto stopped = [](int rank, int wait_status, const char* words = "") {
    return StoppedWorker{rank, launcher::ExitStatus(wait_status), words};
  };
  CHECK(stop_line({stopped(1, 0), stopped(0, 0)}, SIGTERM) == "ranks 0, 1 ended with exit code 0");
  CHECK(stop_line({stopped(0, 0), stopped(1, exited(143)), stopped(2, SIGTERM), stopped(3, SIGKILL),
                   stopped(4, exited(1), "saving\nRuntimeError: no\x1b space\n\n")},
                  SIGTERM) ==
        "rank 0 ended with exit code 0; ranks 1, 2 ended by SIGTERM; rank 3 was killed; rank 4 "
        "failed while stopping: exit 1: RuntimeError: no\\x1b space");
  CHECK(stop_line({stopped(0, exited(1)), stopped(1, exited(1), "a"), stopped(2, exited(1), "b")},
                  SIGTERM) == "ranks 0-2 failed while stopping: exit 1; rank 1: a");
  CHECK(stop_line({stopped(0, SIGSEGV)}, SIGINT) ==
        "rank 0 failed while stopping: killed by SIGSEGV");
  // A program without a handler ends like this.
  CHECK(stop_line({stopped(0, SIGTERM), stopped(1, SIGTERM)}, SIGTERM).empty());
  CHECK(stop_line({stopped(0, SIGTERM), stopped(1, SIGKILL)}, SIGTERM).empty());
  CHECK(stop_line({}, 0).empty());
  std::vector<StoppedWorker> many;
  for (int rank = 0; rank < 5000; ++rank)
    many.push_back(stopped(rank, exited(rank % 100), "words"));
  CHECK(stop_line(many, SIGTERM).size() < 1000);
}

TEST_CASE("a hang is reported with what each rank did") {
  Failure hang;
  hang.rank = 1;
  hang.wait_status = exited(124);
  hang.hung = true;
  hang.cause =
      "no rank has made progress for 10 min (round 2)\n"
      "rank 1 (gpu-02) is the likely cause: asleep (clock_nanosleep) for 10 min, while rank 0 "
      "waited\n"
      "rank 0 (gpu-01): waiting (recv) for 10 min";
  CHECK(failure_report(ended_by(hang)) ==
        "no rank has made progress for 10 min (round 2) (--hang_timeout)\n"
        "  rank 1 (gpu-02) is the likely cause: asleep (clock_nanosleep) for 10 min, while rank 0 "
        "waited\n"
        "  rank 0 (gpu-01): waiting (recv) for 10 min\n"
        "exit code 124; no restarts were asked for (--max_restarts N)");
  CHECK(failure_line(hang, 2) ==
        "no rank has made progress for 10 min (round 2) (--hang_timeout): rank 1 (gpu-02) is the "
        "likely cause: asleep (clock_nanosleep) for 10 min, while rank 0 waited");
  CHECK(loss_text(hang) == "no rank has made progress for 10 min (round 2) (--hang_timeout)");
  hang.cause = "\x1b" + std::string(5'000, 'x') + "\n" + std::string(40, '\n');
  CHECK(lines(failure_report(ended_by(hang))) <= 16);
  hang.cause = "";
  CHECK(failure_line(hang, 2) == " (--hang_timeout): ");
}

TEST_CASE("a round in which no rank makes progress is reported with the last heartbeats") {
  CHECK(stall_report("no rank has made progress for 10 min (round 0)\nrank 0 (a): busy", "") ==
        "no rank has made progress for 10 min (round 0)\n  rank 0 (a): busy");
  CHECK(stall_report("ranks make progress again", "rank 0: step 3") ==
        "ranks make progress again\n  last heartbeats: rank 0: step 3");
}

TEST_CASE("the report begins with the rank for which the failed rank waited") {
  Failed failed = ended_by(segfault());
  failed.suspect =
      "rank 1 (gpu-02) is the likely cause: asleep for 612 s,\nwhile rank 2 waited\x1b";
  CHECK(failure_report(failed).starts_with(
      "rank 1 (gpu-02) is the likely cause: asleep for 612 s, while rank 2 waited\\x1b\n"
      "rank 2 failed first: killed by SIGSEGV"));
}

TEST_CASE("a line for the other workers says how a rank ended") {
  Failure failure = segfault();
  CHECK(loss_text(failure) == "rank 2 on host gpu-07 was killed by SIGSEGV");
  failure.wait_status = killed_by(SIGKILL);
  failure.cause = "out of memory";
  CHECK(loss_text(failure) == "rank 2 on host gpu-07 was killed by SIGKILL: out of memory");
  failure.wait_status = exited(1);
  failure.cause.clear();
  failure.exception = "RuntimeError: loss is\nnan";
  CHECK(loss_text(failure) == "rank 2 on host gpu-07 failed: exit 1: RuntimeError: loss is nan");
}

TEST_CASE("a worker that could not be started is reported with the reason, without time or pid") {
  const Error error{Errc::not_found, "cannot run ./train: no such file"};
  Failed failed = ended_by(start_failure(error, 1, "gpu-08"));
  CHECK(failure_report(failed) ==
        "rank 1 failed first: it could not be started (host gpu-08, round 0): cannot run ./train: "
        "no such file; no restarts were asked for (--max_restarts N)");
  CHECK(loss_text(failed.root_cause) ==
        "rank 1 on host gpu-08 failed: it could not be started: cannot run ./train: no such file");
  failed.summary = "rank 0 was stopped by ddprun (SIGTERM, gone after 12 ms)";
  CHECK(failure_report(failed).ends_with(
      "no such file\nrank 0 was stopped by ddprun (SIGTERM, gone after 12 ms)\n"
      "exit code 127; no restarts were asked for (--max_restarts N)"));
}

TEST_CASE("a node that was lost too often is reported as a failure of its first rank") {
  Failure failure = {8, killed_by(SIGKILL), 0, 41.37, "gpu-08", "node 1 (gpu-08) is gone", "", "",
                     ""};
  CHECK(failure_report(ended_by(failure)) ==
        "rank 8 failed first: lost with its node (host gpu-08, round 0): node 1 (gpu-08) is gone\n"
        "exit code 137; no restarts were asked for (--max_restarts N)");
}

TEST_CASE("a silent worker alone in its job has a short report") {
  const Failed failed = {
      {0, exited(3), 77, 0.004, "gpu-07", "", "", "", ""}, 4, "", "no restart left (3 of 3 used)"};
  CHECK(failure_report(failed) ==
        "rank 0 failed first: exit 3 after 4 ms (host gpu-07, pid 77, round 4)\n"
        "exit code 3; no restart left (3 of 3 used)");
}

TEST_CASE("a failed worker's log files are named") {
  Failed failed = ended_by(segfault());
  failed.root_cause.log_folder = "/data/logs/none_\x1b[2J/attempt_0/1";
  CHECK(failure_report(failed).find("\nits log files: /data/logs/none_\\x1b[2J/attempt_0/1\n") !=
        std::string::npos);
}

TEST_CASE("a job that ends says why it is not restarted, on one line") {
  Failed failed = ended_by(segfault());
  failed.no_restart = "round 0 ran for 2 s only (--min_uptime)\nddprun: all is well\x1b[2J";
  const std::string report = failure_report(failed);
  CHECK(
      report.ends_with("\nexit code 139; round 0 ran for 2 s only (--min_uptime) "
                       "ddprun: all is well\\x1b[2J"));
}

TEST_CASE("the lines about the other workers are cut and escaped") {
  Failed failed = ended_by(segfault());
  failed.root_cause.stderr_tail.clear();
  for (int i = 0; i < 500; ++i) failed.summary += "rank " + std::to_string(i) + " failed\x1b[2J\n";
  failed.summary += std::string(10'000, 'x');
  const std::string report = failure_report(failed);
  CHECK(lines(report) <= 20);
  CHECK(report.size() < 2'000);
  CHECK(report.find("\nrank 499 failed\\x1b[2J\n") != std::string::npos);
  CHECK(report.find('\x1b') == std::string::npos);
}

TEST_CASE("a failure after which the job continues is one line, with the worker's last line") {
  const Failure failure = {5,
                           exited(1),
                           9120,
                           3 * 3600 + 12 * 60 + 5,
                           "gpu-08",
                           "",
                           "Traceback\nRuntimeError: CUDA error: uncorrectable ECC error\n\n",
                           "",
                           ""};
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

TEST_CASE("the line of a round after a change of nodes has their number and range") {
  rendezvous::Layout layout;
  layout.round = 3;
  layout.node_count = 3;
  layout.world_size = 24;
  CHECK(regroup_line(layout, 2, 4) == "round 3 with 3 of 2:4 nodes, 24 workers");
  CHECK(regroup_line(layout, 3, 3) == "round 3 with 3 nodes, 24 workers");
  layout.node_count = layout.world_size = 1;
  CHECK(regroup_line(layout, 1, 1) == "round 3 with 1 node, 1 worker");
}

TEST_CASE("a long traceback is cut to whole frames") {
  std::string traceback = "Traceback (most recent call last):\n";
  for (int line = 1; line <= 9; ++line) {
    traceback += "  File \"t.py\", line " + std::to_string(line) + ", in f\n    g()\n    ^^^\n";
  }
  traceback += "  [Previous line repeated 2 more times]\nValueError: x";
  const Failure failure = {0, exited(1), 9, 1, "gpu-07", "", "", "ValueError: x", traceback};
  const std::string report = failure_report(ended_by(failure));
  CHECK(tests::contains(report, "the innermost call last:\n    File \"t.py\", line 6, in f\n"));
  CHECK(tests::contains(report, "line 9, in f\n      g()\n    [Previous line"));
}

TEST_CASE("a report says what to do if the worker's last words show it") {
  const auto [words, hint] = GENERATE(table<const char*, const char*>(
      {{"train.py: error: the following arguments are required: --local-rank",
        "the program takes its local rank as an argument: --pass_local_rank dash, or ddprun "
        "launch"},
       {"t.py: error: the following arguments are required: --local_rank, --lr",
        "the program takes its local rank as an argument: --pass_local_rank underscore"},
       {"t.py: error: unrecognized arguments: --local-rank=0",
        "the program takes no local rank as an argument: leave out --pass_local_rank and launch, "
        "or "
        "give --use_env"},
       {"E0101 Failed to add port to server: 127.0.0.1:29500\nmore",
        "a server of the program's own, such as JAX's coordinator, needs MASTER_PORT: --store "
        "worker leaves it to rank 0"},
       {"OSError: [Errno 98] Address already in use",
        "ddprun's store has MASTER_PORT; if the program needs it for a server of its own, "
        "--store worker leaves it to rank 0"}}));
  const Failure failure = {0, exited(2), 9, 1, "gpu-07", "", words, "", ""};
  CHECK(tests::contains(failure_report(ended_by(failure)),
                        "\n" + std::string(hint) + "\nexit code 2; "));
  const Failure other = {0, exited(2), 9, 1, "gpu-07", "", "--local-rank", "", ""};
  CHECK_FALSE(tests::contains(failure_report(ended_by(other)), "local rank as"));
}

TEST_CASE("the known reason of a signal is part of the cause") {
  Failure failure = {1, killed_by(SIGKILL), 9, 96, "gpu-07", "out of memory", "epoch 3", "", ""};
  const std::string cause =
      "rank 1 failed first: killed by SIGKILL after 96 s (host gpu-07, pid 9, round 0): "
      "out of memory";
  CHECK(failure_line(failure, 0) == cause);
  CHECK(failure_report(ended_by(failure)).find(cause + "\n") == 0);
  CHECK(failure_report(ended_by(failure)).find("dmesg") == std::string::npos);

  failure.cause = "";
  CHECK(failure_report(ended_by(failure)).find("ddprun did not send this signal") !=
        std::string::npos);
}

TEST_CASE("the end of stderr is cut to one screen") {
  Failure failure = segfault();
  failure.stderr_tail.clear();
  for (int i = 0; i < 500; ++i) failure.stderr_tail += "line " + std::to_string(i) + "\n";

  const std::string report = failure_report(ended_by(failure));
  CHECK(lines(report) <= 20);
  CHECK(report.find("  line 499\n") != std::string::npos);

  failure.stderr_tail = std::string(100'000, 'x');
  CHECK(failure_report(ended_by(failure)).size() < 1000);
  CHECK(failure_line(failure, 0).size() < 1000);
}

}  // namespace
}  // namespace ddprun::agent
