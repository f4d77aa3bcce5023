// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "rendezvous/layout.h"

// The files in which workers tell what they died of (TORCHELASTIC_ERROR_FILE), as @record of
// torch.distributed.elastic.multiprocessing.errors and ddp::record write them: one JSON object,
//
//   {"message": {"message": "<type>: <text>", "errorCode": <exit code>,
//                "extraInfo": {"py_callstack": "<traceback>", "timestamp": "<Unix seconds>"}}}
//   {"message": "<text>", "timestamp": <Unix seconds>}
//
// whichever it likes. A worker may put anything there, or die while it writes.

namespace ddprun::agent {

/// A longer file is not read.
inline constexpr std::size_t kMaxErrorFile = 1024 * 1024;
/// Of an exception's message its beginning is kept, so many bytes.
inline constexpr std::size_t kMaxExceptionMessage = 1024;

/// What ended a worker, in its own words.
struct WorkerException {
  std::string message;    ///< "RuntimeError: loss is nan"; may have several lines; never empty
  std::string traceback;  ///< its last lines, as many as last words have; may be empty
};

/// What an error file of these bytes says; nullopt: nothing that can be understood. Pure.
std::optional<WorkerException> parse_error_file(std::string_view bytes);

/// The bytes of the error file at `path`; empty when there is no ordinary file, when it cannot be
/// read, or is longer than kMaxErrorFile.
std::string read_error_file(const std::string& path);

/// What our own caller finds in the error file that it gave us: `worker_file`, the bytes of the one
/// that the first failure wrote, with the exit code added as torchrun does (minus the number when a
/// signal killed the worker). Of a worker of another node only what `failure` tells is known, and
/// `worker_file` is empty; then it is dated `now`, in Unix seconds. Empty: that worker told
/// nothing. Pure.
std::string error_file_for_caller(const rendezvous::Failure& failure, std::string_view worker_file,
                                  std::time_t now);

/// Puts `bytes` at `path` in one step: readers see what was there before, or all of it. Only an
/// ordinary file is replaced. Errors: system.
Result<> write_error_file(const std::string& path, std::string_view bytes);

}  // namespace ddprun::agent
