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

namespace ddp::internal {
namespace {

constexpr std::size_t kLongestCall = 512;  // of a line about one call; all of them fit into a text
constexpr int kLongestCircle = 8;          // of functions that call each other, to be told once
constexpr std::string_view kHex = "0123456789abcdef";

// What was opened and found out beforehand; written by prepare_crash_report alone.
std::array<char, PATH_MAX> path{};        // empty: there is no file
std::array<char, PATH_MAX + 32> fresh{};  // what becomes it
std::array<int, 2> names = {-1, -1};  // a pipe: what is written about a call is read back from it
int spare = -1;                       // a descriptor to give up, when there are no others left
pid_t process = 0;

std::atomic<pid_t> writer{0};  // the thread that tells
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

/// `text` as the inside of a JSON string.
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
    const std::array<char, 6> code = {'\\', 'u', '0', '0', kHex[value >> 4], kHex[value & 15]};
    const std::array<char, 2> pair = {'\\', special};
    const bool is_short = special == '"' || special == '\\';
    good = good && put(file, is_short ? std::string_view(pair.data(), pair.size())
                                      : std::string_view(code.data(), code.size()));
    text.remove_prefix(1);
  }
  return good;
}

/// "./train(main+0x1f)" from "./train(main+0x1f)[0x55d1]\n", in ASCII.
void tidy(std::string_view line, FixedText& text) {
  line = line.substr(0, line.find_last_of('['));
  for (char c : line) {
    const bool ascii = c >= 0x20 && c < 0x7f;
    text << std::string_view(ascii ? &c : "?", 1);
  }
}

/// How often the `calls` from `place` on come again right after.
int repeats(const void* const* frames, int place, int calls, int skip) {
  const auto is_same = [&](int i) { return frames[i] == frames[i - calls]; };
  int same = 0;
  for (int i = place; i - calls >= skip && is_same(i); --i) ++same;
  return same / calls;
}

/// The line about one of them.
void describe_call(void* const* frames, int place, int skip, FixedText& text) {
  // A call that never returns may be the last instruction of its function: the address after it
  // belongs to the next one.
  const bool returns = skip == 0 || place > skip;
  void* const address = static_cast<char*>(frames[place]) - (returns ? 1 : 0);
  // It writes to a descriptor alone: into a pipe and out again.
  backtrace_symbols_fd(&address, 1, names[1]);
  std::array<char, kLongestCall> line{};
  const ssize_t size = read(names[0], line.data(), line.size());
  if (size <= 0) return;
  text << "  ";
  tidy({line.data(), static_cast<std::size_t>(size)}, text);
  text << "\n";
  std::array<char, 512> rest{};
  while (read(names[0], rest.data(), rest.size()) > 0) continue;  // of a very long name
}

/// A file of ours at `absolute`, or none: a pipe or a device is not ours to replace.
void take_path(const std::string& absolute) {
  struct stat about{};
  if (stat(absolute.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) return;
  const std::string temporary = absolute + "." + std::to_string(getpid()) + ".tmp";
  if (absolute.size() >= path.size() || temporary.size() >= fresh.size()) return;
  std::copy(absolute.begin(), absolute.end(), path.begin());
  std::copy(temporary.begin(), temporary.end(), fresh.begin());
}

}  // namespace

FixedText& FixedText::operator<<(std::string_view text) {
  const std::size_t size = std::min(text.size(), room());
  std::copy_n(text.data(), size, bytes_.data() + size_);
  size_ += size;
  return *this;
}

FixedText& FixedText::operator<<(std::uint64_t number) {
  std::array<char, 20> digits{};
  std::size_t first = digits.size();
  do {
    digits[--first] = kHex[number % 10];
    number /= 10;
  } while (number > 0);
  return *this << std::string_view(digits.data() + first, digits.size() - first);
}

FixedText& FixedText::hex(std::uint64_t number) {
  std::array<char, 16> digits{};
  std::size_t first = digits.size();
  do {
    digits[--first] = kHex[number & 15];
    number >>= 4;
  } while (number > 0);
  return *this << "0x" << std::string_view(digits.data() + first, digits.size() - first);
}

void Calls::describe(FixedText& text, int skip) const {
  for (int place = count - 1; place >= skip;) {
    int calls = 1;
    while (calls <= kLongestCircle && repeats(frames.data(), place, calls, skip) < 2) ++calls;
    const int again = calls > kLongestCircle ? 0 : repeats(frames.data(), place, calls, skip);
    const int last = place - (again > 0 ? calls : 1);
    for (int i = place; i > last; --i) describe_call(frames.data(), i, skip, text);
    const int more = again * calls;
    place = last - more;
    if (more == 0) continue;
    text << "  ... " << static_cast<std::uint64_t>(more) << " more like ";
    if (calls == 1) {
      text << "it\n";
    } else {
      text << "these " << static_cast<std::uint64_t>(calls) << "\n";
    }
  }
}

void prepare_crash_report(const char* error_file) {
  process = getpid();
  if (pipe2(names.data(), O_CLOEXEC | O_NONBLOCK) != 0) names = {-1, -1};
  spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::error_code error;
  if (error_file != nullptr && *error_file != '\0') {
    const auto absolute = std::filesystem::absolute(error_file, error);
    if (!error) take_path(absolute.string());
  }
  // The first call loads libgcc, which allocates: backtrace(3).
  Calls calls;
  calls.take();
  static FixedText nowhere;
  calls.describe(nowhere, 0);
}

bool begin_crash_report() {
  if (getpid() != process) return false;  // a child that was forked off
  pid_t nobody = 0;
  return writer.compare_exchange_strong(nobody, this_thread());
}

void wait_for_crash_report() {
  if (getpid() == process && writer != this_thread()) finished.wait(0);
}

void write_crash_report(std::string_view message, std::string_view traceback) {
  if (path[0] == '\0') return;
  if (spare >= 0) close(spare);
  spare = -1;
  const int file = open(fresh.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return;
  static FixedText now;
  now.clear();
  now << static_cast<std::uint64_t>(time(nullptr));
  const bool whole = put(file, R"({"message": {"message": ")") && put_escaped(file, message) &&
                     put(file, R"(", "extraInfo": {"py_callstack": ")") &&
                     put_escaped(file, traceback) && put(file, R"(", "timestamp": ")") &&
                     put(file, now.view()) && put(file, "\"}}}\n");
  if (close(file) != 0 || !whole || rename(fresh.data(), path.data()) != 0) unlink(fresh.data());
}

void finish_crash_report() {
  finished = 1;
  finished.notify_all();
}

void print(std::string_view text) {
  put(STDERR_FILENO, text);
}

}  // namespace ddp::internal
