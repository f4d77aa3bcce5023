// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdlib>
#include <memory>
#include <unistd.h>
#include <utility>

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/colour.h"
#include "base/text.h"

namespace ddprun::log {
namespace {

constexpr std::string_view kCause = "\033[31m";
constexpr std::string_view kReset = "\033[0m";

void write_to_stderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return;  // stderr is closed or broken: there is no other place to report it
    }
    line.remove_prefix(static_cast<size_t>(written));
  }
}

std::string line_mark;  // in front of each line

std::string as_block(std::string_view text) {
  std::string block = line_mark + "ddprun: ";
  for (const char c : printable(text)) {  // some of it comes from other hosts
    block += c;
    if (c == '\n') block += line_mark + "        ";
  }
  return block += '\n';
}

/// Passes whole lines to the current writer; null_mutex because the agent has one thread.
class LineSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::function<void(std::string_view)> writer = write_to_stderr;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string block = as_block({message.payload.data(), message.payload.size()});
    const bool is_cause = message.level >= spdlog::level::err;
    if (is_cause && !are_lines_marked() && wants_colour(STDERR_FILENO)) {
      const size_t first_line = block.find('\n');
      block.insert(first_line, kReset).insert(0, kCause);
    }
    writer(block);
  }
  void flush_() override {}
};

LineSink& sink() {
  static const auto instance = std::make_shared<LineSink>();
  return *instance;
}

spdlog::logger& logger() {
  static spdlog::logger instance("ddprun", std::shared_ptr<LineSink>(&sink(), [](LineSink*) {}));
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  std::abort();
}

spdlog::string_view_t view(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

Result<Level> parse_level(std::string_view name) {
  if (name == "debug") return Level::debug;
  if (name == "info") return Level::info;
  if (name == "warning") return Level::warning;
  if (name == "error") return Level::error;
  if (name == "off") return Level::off;
  return Error{Errc::usage, "'" + std::string(name) +
                                "' is not a log level: use debug, info, warning, error or off"};
}

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

void set_writer(std::function<void(std::string_view line)> writer) {
  sink().writer = writer ? std::move(writer) : write_to_stderr;
}

bool are_lines_marked() {
  return !line_mark.empty();
}

void mark_lines() {
  line_mark = kMark;
}

void debug(std::string_view text) {
  logger().log(spdlog::level::debug, view(text));
}
void info(std::string_view text) {
  logger().log(spdlog::level::info, view(text));
}
void warning(std::string_view text) {
  logger().log(spdlog::level::warn, view(text));
}
void error(std::string_view text) {
  logger().log(spdlog::level::err, view(text));
}

}  // namespace ddprun::log
