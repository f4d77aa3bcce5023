// SPDX-License-Identifier: Apache-2.0
// Whatever a worker leaves in its error file: nothing may break the reader, what it keeps is
// bounded and fit for the wire, and what we hand on to our own caller is understood the same way.
//
//   cmake --preset ... -DDDPRUN_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++
//   bin/error_file_fuzz -max_len=200000 CORPUS tests/fuzz/error_file_corpus
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "agent/error_file.h"
#include "agent/report.h"
#include "launcher/output/stderr_tail.h"

namespace {

using namespace ddprun;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

rendezvous::Failure failure_with(const agent::WorkerException& exception) {
  rendezvous::Failure failure;
  failure.wait_status = 1 << 8;
  failure.exception = exception.message;
  failure.traceback = exception.traceback;
  failure.stderr_tail = exception.traceback;
  return failure;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::optional<agent::WorkerException> told = agent::parse_error_file(input);
  if (!told) return 0;
  require(!told->message.empty(), "an exception has a message");
  require(told->message.size() <= agent::kMaxExceptionMessage + 3, "which is bounded");
  require(told->traceback.size() <= launcher::StderrTail::kBytes, "as is the traceback");

  const rendezvous::Failure failure = failure_with(*told);
  const std::string handed_on = agent::error_file_for_caller(failure, input, 0);
  const auto again = agent::parse_error_file(handed_on);
  require(again.has_value(), "what was understood is understood again");
  require(again->message == told->message, "with the same message");
  require(again->traceback == told->traceback, "and the same traceback");

  const std::string report = agent::failure_report({failure, 0, "", ""});
  require(report.size() < 8'000, "the report fits on a screen");
  require(report.find('\x1b') == report.npos, "and does not steer it");
  return 0;
}
