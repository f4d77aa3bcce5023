// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>

#include "agent/job/report.h"
#include "tests/agent/job/reports.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::agent {
namespace {

/// A failure of a Python worker: only stderr has the outer frames of its wrapper.
Failure python_failure() {
  Failure failure = segfault();
  failure.wait_status = exited(1);
  failure.exception = "RuntimeError: loss is nan";
  failure.traceback =
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 80, in main\n"
      "    train(loader)\n"
      "    ~~~~~^^^^^^^^\n"
      "  File \"train.py\", line 12, in train\n"
      "    raise RuntimeError(\"loss is nan\")\n"
      "RuntimeError: loss is nan";
  failure.stderr_tail =
      "step 812: loss nan\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 99, in <module>\n"
      "    main()\n"
      "    ~~~~^^\n"
      "  File \"train.py\", line 80, in main\n"
      "    train(loader)\n"
      "    ~~~~~^^^^^^^^\n"
      "  File \"train.py\", line 12, in train\n"
      "    raise RuntimeError(\"loss is nan\")\n"
      "RuntimeError: loss is nan\n"
      "Warning: destroy_process_group() was not called";
  return failure;
}

TEST_CASE("if a Python module is missing, the cause names the Python that lacks it") {
  Failure failure = segfault();
  failure.stderr_tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n"
      "ModuleNotFoundError: No module named 'torch'\n";
  JobSpec job;
  job.program = "/usr/bin/python3";
  job.own_arguments = 3;
  CHECK(missing_module_text(failure, job) ==
        "/usr/bin/python3 has no module torch (PYTHON_EXEC=FILE names another Python)");
  failure.exception = "ModuleNotFoundError: No module named 'a.b'; 'a' is not a package";
  CHECK(missing_module_text(failure, job).starts_with("/usr/bin/python3 has no module a.b ("));
  job.own_arguments = 1;  // the program is not ddprun's Python
  CHECK(missing_module_text(failure, job).empty());
  job.own_arguments = 3;
  failure.exception = "RuntimeError: ModuleNotFoundError: No module named 'torch'";
  CHECK(missing_module_text(failure, job).empty());
  failure.exception.clear();
  failure.stderr_tail.clear();
  CHECK(missing_module_text(failure, job).empty());
}

TEST_CASE("a worker's exception is the cause, and no line is repeated") {
  CHECK(failure_report(ended_by(python_failure())) ==
        "rank 2 failed first: exit 1 after 41.3 s (host gpu-07, pid 48121, round 0): "
        "RuntimeError: loss is nan\n"
        "its traceback, the innermost call last:\n"
        "    File \"train.py\", line 80, in main\n"
        "      train(loader)\n"
        "    File \"train.py\", line 12, in train\n"
        "      raise RuntimeError(\"loss is nan\")\n"
        "its last words on stderr:\n"
        "  step 812: loss nan\n"
        "  Warning: destroy_process_group() was not called\n"
        "exit code 1; no restarts were asked for (--max_restarts N)");
  CHECK(failure_line(python_failure(), 0) ==
        "rank 2 failed first: exit 1 after 41.3 s (host gpu-07, pid 48121, round 0): "
        "RuntimeError: loss is nan");
}

TEST_CASE("stderr that ends with only the traceback, whole or cut, is left out") {
  Failure failure = python_failure();
  for (const char* from : {"Traceback", "    main()", "  File \"train.py\", line 12"}) {
    INFO(from);
    failure.stderr_tail = python_failure().stderr_tail;
    failure.stderr_tail.erase(0, failure.stderr_tail.find(from));
    failure.stderr_tail.erase(failure.stderr_tail.find("\nWarning"));
    CHECK(failure_report(ended_by(failure)).find("last words") == std::string::npos);
  }
}

TEST_CASE("other lines of stderr stay beside the traceback") {
  Failure failure = python_failure();
  failure.stderr_tail = "NCCL WARN Cuda failure";
  const std::string report = failure_report(ended_by(failure));
  CHECK(report.find("\n      raise RuntimeError(\"loss is nan\")\n"
                    "its last words on stderr:\n"
                    "  NCCL WARN Cuda failure\n") != std::string::npos);
}

TEST_CASE("an empty line of the traceback removes no other lines of stderr") {
  Failure failure = python_failure();
  failure.exception = "RuntimeError: loss is nan\n\nsee the log";
  failure.stderr_tail = "step 811\n\nstep 812\n\nstep 813";
  const std::string report = failure_report(ended_by(failure));
  CHECK(report.find("\n  step 812\n") != std::string::npos);
}

TEST_CASE("a message without a traceback is not repeated from stderr") {
  Failure failure = python_failure();
  failure.traceback.clear();
  failure.stderr_tail = "step 812\nRuntimeError: loss is nan";
  CHECK(failure_report(ended_by(failure)) ==
        "rank 2 failed first: exit 1 after 41.3 s (host gpu-07, pid 48121, round 0): "
        "RuntimeError: loss is nan\n"
        "its last words on stderr:\n"
        "  step 812\n"
        "exit code 1; no restarts were asked for (--max_restarts N)");
}

TEST_CASE("a signal is named once, and the class of an exception by its short name") {
  Failure failure = segfault();
  failure.exception = "SIGSEGV: nothing is mapped at address 0x10";
  failure.traceback =
      "Traceback (most recent call last):\n  ./train(main+0x1f)\n" + failure.exception;
  failure.stderr_tail = failure.traceback;
  CHECK(failure_report(ended_by(failure)) ==
        "rank 2 failed first: killed by SIGSEGV after 41.3 s (host gpu-07, pid 48121, round 0): "
        "nothing is mapped at address 0x10\n"
        "its traceback, the innermost call last:\n"
        "    ./train(main+0x1f)\n"
        "exit code 139; no restarts were asked for (--max_restarts N)");

  failure = python_failure();
  failure.traceback = "  raise OutOfMemoryError\ntorch.cuda.OutOfMemoryError: no room";
  failure.exception = "OutOfMemoryError: no room";
  const std::string report = failure_report(ended_by(failure));
  CHECK(report.find("round 0): OutOfMemoryError: no room\n") != std::string::npos);
  CHECK(report.find("torch.cuda") == std::string::npos);
}

TEST_CASE("a message too long for the cause line ends the traceback, on one screen") {
  Failure failure = python_failure();
  failure.exception = "ValueError: " + std::string(300, 'x');
  failure.traceback = "  File \"train.py\", line 12, in train\n" + failure.exception;
  failure.stderr_tail.clear();
  CHECK(failure_report(ended_by(failure)).find("\n  ValueError: xxx") != std::string::npos);

  for (int i = 0; i < 500; ++i) failure.traceback += "\n  frame " + std::to_string(i);
  for (int i = 0; i < 500; ++i) failure.stderr_tail += "line " + std::to_string(i) + "\n";
  const std::string report = failure_report(ended_by(failure));
  CHECK(lines(report) <= 20);
  CHECK(report.find("\n    frame 499\n") != std::string::npos);
  CHECK(report.find("\n  line 499\n") != std::string::npos);
}

TEST_CASE("the kernel's reason and the worker's exception are both the cause") {
  Failure failure = {1, killed_by(SIGKILL), 9, 96, "gpu-07", "out of memory", "", "Slow: wait", ""};
  CHECK(failure_line(failure, 0).ends_with("round 0): out of memory: Slow: wait"));
}

TEST_CASE("a worker's bytes are escaped in the report") {
  Failure failure = segfault();
  failure.stderr_tail =
      "\x1b[2J\x1b]0;owned\x07 20%\r30%\b\n\ttabbed \xff \xc2\x9b"
      "1m h\xc3\xa9\n";
  failure.host = "evil\nddprun: all is well";
  const std::string report = failure_report(ended_by(failure));
  CHECK(report.find("  \\x1b[2J\\x1b]0;owned\\x07 20%\\x0d30%\\x08\n") != std::string::npos);
  CHECK(report.find("  \ttabbed \\xff \\xc2\\x9b1m h\xc3\xa9\n") != std::string::npos);
  CHECK(report.find("(host evil ddprun: all is well, pid") != std::string::npos);
  CHECK(report.find('\x1b') == std::string::npos);
}

TEST_CASE("a long line is not cut within a character") {
  Failure failure = segfault();
  for (int i = 0; i < 300; ++i) failure.stderr_tail += "\xe2\x82\xac";  // 3 bytes each
  const std::string line = failure_line(failure, 0);
  CHECK(line.substr(line.size() - 6) == "\xe2\x82\xac...");
}

}  // namespace
}  // namespace ddprun::agent
