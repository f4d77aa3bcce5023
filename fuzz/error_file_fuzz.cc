// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a worker's error file. The kept part is bounded, the file that ddprun writes
// for its own caller parses to the same, and a report of it is safe to print.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/job/error_file.h"
#include "agent/job/report.h"
#include "fuzz/target.h"
#include "launcher/output/recent_output.h"

namespace {

using namespace ddprun;
using fuzz::require;

rendezvous::Failure failure_of(const agent::WorkerException& exception) {
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
  const std::optional<agent::WorkerException> exception = agent::parse_error_file(input);
  if (!exception) return 0;
  require(!exception->message.empty(), "an exception has a message");
  require(exception->message.size() <= agent::kMaxExceptionMessage + 3, "a message is bounded");
  require(exception->traceback.size() <= launcher::StderrTail::kBytes, "a traceback is bounded");

  const rendezvous::Failure failure = failure_of(*exception);
  const std::string for_caller = agent::error_file_for_caller(failure, input, 0);
  const auto again = agent::parse_error_file(for_caller);
  require(again.has_value(), "the file for the caller parses");
  require(again->message == exception->message, "to the same message");
  require(again->traceback == exception->traceback, "and to the same traceback");

  const std::string report = agent::failure_report({failure, 0, "", ""});
  require(report.size() < 8'000, "a report is bounded");
  require(report.find('\x1b') == report.npos, "a report has no escape sequences");
  return 0;
}
