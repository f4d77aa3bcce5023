// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/crash_report.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectives/crash/backtrace.h"

namespace ddp::internal {
namespace {

// Only prepare_crash_report() writes these.
std::array<char, PATH_MAX> report_path{};          // empty: no file is written
std::array<char, PATH_MAX + 32> temporary_path{};  // renamed to report_path
int reserved_fd = -1;  // closed before the file is opened: no other descriptor may be left
pid_t process = 0;

std::atomic<pid_t> writer{0};  // the thread that writes the report
std::atomic<int> finished{0};

pid_t this_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

bool put(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Writes `text` as the inside of a JSON string.
bool put_escaped(int file, std::string_view text) {
  bool good = true;
  while (good && !text.empty()) {
    const auto plain = static_cast<std::size_t>(
        std::find_if(
            text.begin(), text.end(),
            [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }) -
        text.begin());
    good = put(file, text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char special = text.front();
    const auto value = static_cast<unsigned char>(special);
    const std::array<char, 6> code = {
        '\\', 'u', '0', '0', kHexDigits[value >> 4], kHexDigits[value & 15]};
    const std::array<char, 2> pair = {'\\', special};
    const bool is_short = special == '"' || special == '\\';
    good = good && put(file, is_short ? std::string_view(pair.data(), pair.size())
                                      : std::string_view(code.data(), code.size()));
    text.remove_prefix(1);
  }
  return good;
}

/// Sets the paths, unless something other than a regular file is there: it must not be replaced.
void set_paths(const std::string& absolute) {
  struct stat about{};
  if (stat(absolute.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) return;
  const std::string temporary = absolute + "." + std::to_string(getpid()) + ".tmp";
  if (absolute.size() >= report_path.size() || temporary.size() >= temporary_path.size()) return;
  std::copy(absolute.begin(), absolute.end(), report_path.begin());
  std::copy(temporary.begin(), temporary.end(), temporary_path.begin());
}

}  // namespace

void prepare_crash_report(const char* error_file) {
  process = getpid();
  reserved_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::error_code error;
  if (error_file != nullptr && *error_file != '\0') {
    const auto absolute = std::filesystem::absolute(error_file, error);
    if (!error) set_paths(absolute.string());
  }
  prepare_backtraces();
}

bool begin_crash_report() {
  if (getpid() != process) return false;  // a forked child
  pid_t none = 0;
  return writer.compare_exchange_strong(none, this_thread());
}

void wait_for_crash_report() {
  if (getpid() == process && writer != this_thread()) finished.wait(0);
}

void write_crash_report(std::string_view message, std::string_view traceback) {
  if (report_path[0] == '\0') return;
  if (reserved_fd >= 0) close(reserved_fd);
  reserved_fd = -1;
  unlink(temporary_path.data());  // another user's file is not ours
  const int file =
      open(temporary_path.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return;
  static FixedString timestamp;
  timestamp.clear();
  timestamp << static_cast<std::uint64_t>(time(nullptr));
  const bool complete = put(file, R"({"message": {"message": ")") && put_escaped(file, message) &&
                        put(file, R"(", "extraInfo": {"py_callstack": ")") &&
                        put_escaped(file, traceback) && put(file, R"(", "timestamp": ")") &&
                        put(file, timestamp.view()) && put(file, "\"}}}\n");
  if (close(file) != 0 || !complete || rename(temporary_path.data(), report_path.data()) != 0)
    unlink(temporary_path.data());
}

void finish_crash_report() {
  finished = 1;
  finished.notify_all();
}

void print(std::string_view text) {
  put(STDERR_FILENO, text);
}

}  // namespace ddp::internal
