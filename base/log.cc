// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdlib>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/colour.h"
#include "base/file_text.h"

namespace ddprun::log {
namespace {

constexpr std::string_view kCause = "\033[31m";
constexpr std::string_view kReset = "\033[0m";

void write_to_stderr(std::string_view line) {
  write_all(STDERR_FILENO, line);  // no other place is left to report that stderr is closed
}

Style style;
bool is_relayed = false;
std::function<void(std::string_view, bool)> warning_listener;

Level from_spdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return Level::debug;
  if (level == spdlog::level::info) return Level::info;
  return level == spdlog::level::warn ? Level::warning : Level::error;
}

std::string formatted(const Line& line) {
  if (is_relayed) return kMark + relayed_line(line);
  if (style.format == Format::json) return json_line(line);
  return text_line(line, style.with_time);
}

/// Passes whole lines to the current writer; null_mutex because the agent has one thread.
class LineSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::function<void(std::string_view)> writer = write_to_stderr;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string block =
        formatted({from_spdlog(message.level), style.host,
                   std::string(message.payload.data(), message.payload.size()), message.time});
    const bool is_cause = message.level >= spdlog::level::err;
    const bool is_text = !is_relayed && style.format != Format::json;
    if (is_text && is_cause && wants_colour(STDERR_FILENO)) {
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

bool is_stderr_a_file() {
  struct stat status{};
  return fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode);
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

Result<Format> parse_format(std::string_view name) {
  if (name == "text") return Format::text;
  if (name == "plain") return Format::plain;
  if (name == "json") return Format::json;
  return Error{Errc::usage, "'" + std::string(name) + "' is not a format: use text, plain or json"};
}

Style style_for(Format format, Level level, std::string host) {
  const bool with_time = format == Format::text && (level == Level::debug || is_stderr_a_file());
  return {format, with_time, std::move(host)};
}

void set_style(Style wanted) {
  style = std::move(wanted);
}

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

void set_writer(std::function<void(std::string_view line)> writer) {
  sink().writer = writer ? std::move(writer) : write_to_stderr;
}

void set_listener(std::function<void(std::string_view text, bool is_over)> listener) {
  warning_listener = std::move(listener);
}

bool are_lines_relayed() {
  return is_relayed;
}

void relay_lines() {
  is_relayed = true;
}

void show_relayed(const Line& line) {
  const std::string own = std::exchange(style.host, line.host);
  logger().log(to_spdlog(line.level), view(line.text));
  style.host = own;
}

void debug(std::string_view text) {
  logger().log(spdlog::level::debug, view(text));
}
void info(std::string_view text) {
  logger().log(spdlog::level::info, view(text));
}
void warning(std::string_view text) {
  logger().log(spdlog::level::warn, view(text));
  if (warning_listener) warning_listener(text, false);
}
void recovery(std::string_view text) {
  info(text);
  if (warning_listener) warning_listener(text, true);
}
void error(std::string_view text) {
  logger().log(spdlog::level::err, view(text));
}

}  // namespace ddprun::log
