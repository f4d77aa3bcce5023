// SPDX-License-Identifier: Apache-2.0
#include "agent/job/error_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "agent/job/outcome.h"
#include "base/fd.h"
#include "base/file_text.h"
#include "base/json.h"
#include "base/text.h"
#include "launcher/output/recent_output.h"

namespace ddprun::agent {
namespace {

/// The field `name` of `json`; null if `json` is not an object or has no such field.
const Json& field(const Json& json, const char* name) {
  static const Json none;
  if (!json.is_object()) return none;
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : std::string();
}

std::string without_end(std::string text, const char* characters) {
  text.erase(text.find_last_not_of(characters) + 1);  // npos + 1 is 0
  return text;
}

std::string end_of(std::string_view traceback) {
  launcher::StderrTail tail;
  tail.feed(traceback);
  return tail.text();
}

/// The exit code as in Python's subprocess: a signal is negative.
int error_code_of(const rendezvous::Failure& failure) {
  const launcher::ExitStatus status = exit_status(failure);
  return status.signal() != 0 ? -status.signal() : status.code();
}

Result<> write_file(const std::string& path, std::string_view bytes) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) return os_error("cannot create " + path, errno);
  const int error = write_all(file.get(), bytes);
  return error == 0 ? Result<>() : os_error("cannot write to " + path, error);
}

}  // namespace

std::optional<WorkerException> parse_error_file(std::string_view bytes) {
  if (bytes.size() > kMaxErrorFile) return std::nullopt;
  const Json file = parse_bounded(bytes);
  const Json& message = field(file, "message");
  std::string text = text_of(message.is_object() ? field(message, "message") : message);
  // An exception without a text is "AssertionError: ".
  text = without_end(without_end(std::move(text), " \r\n\t"), ":");
  if (text.empty()) return std::nullopt;
  return WorkerException{cut(std::move(text), kMaxExceptionMessage),
                         end_of(text_of(field(field(message, "extraInfo"), "py_callstack")))};
}

std::string read_error_file(const std::string& path) {
  // O_NONBLOCK: opening a named pipe without a writer would block.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat about{};
  if (!file || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return "";
  if (about.st_size > static_cast<off_t>(kMaxErrorFile)) return "";
  std::string bytes;
  if (read_all(file.get(), kMaxErrorFile, bytes) != 0) return "";
  return bytes;
}

bool is_of_before(const std::string& path, const std::timespec& when) {
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) return false;
  const auto& written = about.st_mtim;
  return std::pair(written.tv_sec, written.tv_nsec) < std::pair(when.tv_sec, when.tv_nsec);
}

std::string read_error_file_of_before(const std::string& path, const std::timespec& when) {
  return is_of_before(path, when) ? read_error_file(path) : "";
}

std::string error_file_for_caller(const rendezvous::Failure& failure, std::string_view worker_file,
                                  std::time_t now) {
  if (failure.exception.empty()) return "";
  Json file = worker_file.empty() ? Json() : parse_bounded(worker_file);
  if (field(file, "message").is_string()) return std::string(worker_file);
  if (!field(file, "message").is_object()) {
    file = {{"message",
             {{"message", failure.exception},
              {"extraInfo",
               {{"py_callstack", failure.traceback}, {"timestamp", std::to_string(now)}}}}}};
  }
  file["message"]["errorCode"] = error_code_of(failure);
  return json_text(file);
}

Result<> write_error_file(const std::string& path, std::string_view bytes) {
  struct stat about{};
  if (stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) {
    return Error{Errc::system, path + " is not a regular file"};
  }
  const std::string whole = path + "." + std::to_string(getpid()) + ".tmp";
  unlink(whole.c_str());  // another user can guess the name, and may have put something there
  Result<> written = write_file(whole, bytes);
  if (written && std::rename(whole.c_str(), path.c_str()) != 0) {
    written = os_error("cannot create " + path, errno);
  }
  if (!written) unlink(whole.c_str());
  return written;
}

Result<> write_error_file_for_caller(const std::string& path, const rendezvous::Failure& failure,
                                     std::string_view worker_file) {
  const std::string file = error_file_for_caller(failure, worker_file, std::time(nullptr));
  if (file.empty()) return {};
  return write_error_file(path, file);
}

}  // namespace ddprun::agent
