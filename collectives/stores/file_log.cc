// SPDX-License-Identifier: Apache-2.0
#include "collectives/stores/file_log.h"

#include "collectives/little_endian.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kFields = 9;
constexpr std::size_t kMaxKey = 16 << 10;
constexpr std::size_t kMaxValue = 8 << 20;

}  // namespace

std::string encode(const LogEntry& entry) {
  std::string out(1, static_cast<char>(entry.change));
  out.reserve(kFields + entry.key.size() + entry.value.size());
  put_little_endian(out, static_cast<std::uint32_t>(entry.key.size()));
  put_little_endian(out, static_cast<std::uint32_t>(entry.value.size()));
  out.append(entry.key).append(entry.value);
  return out;
}

LogStatus decode(std::string_view bytes, LogEntry& entry) {
  if (bytes.empty()) return LogStatus::incomplete;
  if (std::string_view("SAD").find(bytes[0]) == std::string_view::npos) return LogStatus::malformed;
  if (bytes.size() < kFields) return LogStatus::incomplete;
  const std::size_t key = get_little_endian<std::uint32_t>(bytes, 1);
  const std::size_t value = get_little_endian<std::uint32_t>(bytes, 5);
  if (key > kMaxKey || value > kMaxValue) return LogStatus::malformed;
  entry.size = kFields + key + value;
  if (bytes.size() < entry.size) return LogStatus::incomplete;
  entry.change = static_cast<LogEntry::Change>(bytes[0]);
  entry.key = bytes.substr(kFields, key);
  entry.value = bytes.substr(kFields + key, value);
  return LogStatus::complete;
}

}  // namespace ddp::internal
