// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "rendezvous/layout.h"

// The files in which workers write the exception that ended them (TORCHELASTIC_ERROR_FILE), as
// @record of torch.distributed.elastic.multiprocessing.errors and ddp::record do: one JSON object
// in either form,
//
//   {"message": {"message": "<type>: <text>", "errorCode": <exit code>,
//                "extraInfo": {"py_callstack": "<traceback>", "timestamp": "<Unix seconds>"}}}
//   {"message": "<text>", "timestamp": <Unix seconds>}
//
// A worker may write anything there, or die while it writes.

namespace ddprun::agent {

/// The most bytes of an error file: a longer one is not read.
inline constexpr std::size_t kMaxErrorFile = 1024 * 1024;
/// The most bytes of an exception's message: a longer one is cut.
inline constexpr std::size_t kMaxExceptionMessage = 1024;

/// The exception that ended a worker.
struct WorkerException {
  std::string message;    ///< "RuntimeError: loss is nan"; may have several lines; never empty
  std::string traceback;  ///< its end, as long as a StderrTail; may be empty
};

/// The exception in an error file of these bytes; nullopt: they are no error file. Pure.
std::optional<WorkerException> parse_error_file(std::string_view bytes);

/// The bytes of the error file at `path`; empty if it is not a regular file, cannot be read, or is
/// longer than kMaxErrorFile.
std::string read_error_file(const std::string& path);

/// The same if the file was written before `when`; else empty. `when` is of CLOCK_REALTIME_COARSE:
/// the kernel dates files by this clock.
std::string read_error_file_of_before(const std::string& path, const std::timespec& when);

/// Whether there is a file that was last written before `when`, as the kernel dates files.
bool is_of_before(const std::string& path, const std::timespec& when);

/// The bytes of ddprun's own error file, for the program that started ddprun: `worker_file` of the
/// worker that failed first, with that worker's exit code, as torchrun adds it (minus the signal's
/// number if one killed it). If `worker_file` is empty, as for a worker of another node, the file
/// is made of `failure` and dated `now`, in Unix seconds. Empty: that worker reported no exception.
/// Pure.
std::string error_file_for_caller(const rendezvous::Failure& failure, std::string_view worker_file,
                                  std::time_t now);

/// Writes `bytes` to `path` atomically: readers see the old file or the new one. Replaces only a
/// regular file. Errors: system.
Result<> write_error_file(const std::string& path, std::string_view bytes);

/// Writes the present error_file_for_caller to `path`, unless it is empty. Errors: as
/// write_error_file.
Result<> write_error_file_for_caller(const std::string& path, const rendezvous::Failure& failure,
                                     std::string_view worker_file);

}  // namespace ddprun::agent
