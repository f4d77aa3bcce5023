// SPDX-License-Identifier: Apache-2.0
#include "collectives/stores/file_log.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kFields = 9;
constexpr std::size_t kMaxKey = 16 << 10;
constexpr std::size_t kMaxValue = 8 << 20;

void put_length(std::string& out, std::size_t number) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

std::size_t take_length(std::string_view bytes, std::size_t at) {
  std::size_t number = 0;
  for (std::size_t i = 4; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return number;
}

}  // namespace

std::string encode(const LogEntry& entry) {
  std::string out(1, static_cast<char>(entry.change));
  out.reserve(kFields + entry.key.size() + entry.value.size());
  put_length(out, entry.key.size());
  put_length(out, entry.value.size());
  out.append(entry.key).append(entry.value);
  return out;
}

LogStatus decode(std::string_view bytes, LogEntry& entry) {
  if (bytes.empty()) return LogStatus::incomplete;
  if (std::string_view("SAD").find(bytes[0]) == std::string_view::npos) return LogStatus::malformed;
  if (bytes.size() < kFields) return LogStatus::incomplete;
  const std::size_t key = take_length(bytes, 1);
  const std::size_t value = take_length(bytes, 5);
  if (key > kMaxKey || value > kMaxValue) return LogStatus::malformed;
  entry.size = kFields + key + value;
  if (bytes.size() < entry.size) return LogStatus::incomplete;
  entry.change = static_cast<LogEntry::Change>(bytes[0]);
  entry.key = bytes.substr(kFields, key);
  entry.value = bytes.substr(kFields + key, value);
  return LogStatus::complete;
}

}  // namespace ddp::internal
