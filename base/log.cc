// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/colour.h"
#include "base/file_text.h"
#include "base/json.h"
#include "base/text.h"

namespace ddprun::log {
namespace {

constexpr std::array kLevels = {Level::debug, Level::info, Level::warning, Level::error};
constexpr std::string_view kSaid = "said ";
constexpr char kNewline = '\x1f';  // within a relayed line; printable() leaves no such character

std::string_view level_name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
    case Level::off:
      break;
  }
  return "off";
}

/// "2026-11-23T17:51:50.123Z": UTC, because hosts may be in different time zones.
std::string time_text(std::chrono::system_clock::time_point at) {
  using namespace std::chrono;
  const auto since = floor<milliseconds>(at.time_since_epoch());
  const std::time_t seconds = floor<std::chrono::seconds>(since).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%03dZ",
                static_cast<int>(since.count() - seconds * 1000));
  return text.data();
}

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

std::string text_line(const Line& line, bool with_time) {
  std::string block = with_time ? time_text(line.at) + " " : "";
  block += "ddprun: ";
  if (!line.host.empty()) block += "[" + printable(line.host) + "] ";
  for (const char c : printable(line.text)) {
    block += c;
    if (c == '\n') block += "        ";
  }
  return block += '\n';
}

std::string json_line(const Line& line) {
  OrderedJson json = {{"time", time_text(line.at)}, {"level", level_name(line.level)}};
  if (!line.host.empty()) json["host"] = line.host;
  json["message"] = line.text;
  return json_text(json) + '\n';
}

std::string relayed_line(const Line& line) {
  std::string text = printable(line.text);
  std::replace(text.begin(), text.end(), '\n', kNewline);
  return std::string(kSaid).append(level_name(line.level)).append(" ").append(text).append("\n");
}

std::optional<Line> decode_relayed(std::string_view line) {
  if (!line.starts_with(kSaid)) return std::nullopt;
  line.remove_prefix(kSaid.size());
  for (const Level level : kLevels) {
    const std::string_view name = level_name(level);
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") continue;
    std::string text(line.substr(name.size() + 1));
    std::replace(text.begin(), text.end(), kNewline, '\n');
    return Line{level, "", std::move(text), {}};
  }
  return std::nullopt;
}

Result<Level> parse_level(std::string_view name) {
  for (const Level level : kLevels) {
    if (name == level_name(level)) return level;
  }
  if (name == level_name(Level::off)) return Level::off;
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
