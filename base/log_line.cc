// SPDX-License-Identifier: Apache-2.0
#include "base/log_line.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ddprun::log {
namespace {

constexpr std::array kLevels = {Level::debug, Level::info, Level::warning, Level::error};
constexpr std::string_view kSaid = "said ";
constexpr char kNewline = '\x1f';  // within a relayed line; printable() leaves no such character

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

}  // namespace

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
  using Json = nlohmann::ordered_json;  // fields in the order they are written here
  Json json = {{"time", time_text(line.at)}, {"level", level_name(line.level)}};
  if (!line.host.empty()) json["host"] = line.host;
  json["message"] = line.text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
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

}  // namespace ddprun::log
