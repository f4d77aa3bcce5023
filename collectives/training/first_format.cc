// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/first_format.h"

#include "collectives/call/call.h"
#include "collectives/little_endian.h"

namespace ddp::internal {
namespace {

constexpr std::string_view kMagic = "ddp checkpoint 1";
constexpr std::size_t kFixed = 40;
constexpr std::uint64_t kTypes = 1 + static_cast<std::uint64_t>(DataType::int64);

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  return get_little_endian<std::uint64_t>(bytes, at);
}

}  // namespace

std::string checked_in_first_format(const CheckpointHeader& header) {
  std::string out;
  put_little_endian(out, header.version);
  put_little_endian(out, std::uint64_t{header.parts.size()});
  for (const CheckpointPart& part : header.parts) {
    put_little_endian(out, static_cast<std::uint64_t>(part.type));
    put_little_endian(out, part.count);
  }
  return out;
}

HeaderStatus decode_first_format(std::string_view bytes, CheckpointHeader& header) {
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) {
    return HeaderStatus::malformed;
  }
  if (bytes.size() < kFixed) return HeaderStatus::incomplete;
  const std::uint64_t parts = number_at(bytes, 32);
  if (parts > kMaxCheckpointParts) return HeaderStatus::malformed;
  if ((bytes.size() - kFixed) / 16 < parts) return HeaderStatus::incomplete;
  header = {.first_format = true,
            .size = kFixed + 16 * parts,
            .checksum = number_at(bytes, 16),
            .version = number_at(bytes, 24)};
  std::uint64_t data = 0;
  for (std::size_t at = kFixed; at < header.size; at += 16) {
    const std::uint64_t type = number_at(bytes, at);
    if (type >= kTypes) return HeaderStatus::malformed;
    const CheckpointPart part{static_cast<DataType>(type), number_at(bytes, at + 8), data};
    if (part.count >= (kMaxCheckpointData - data) / size_of(part.type))
      return HeaderStatus::malformed;
    data += part.count * size_of(part.type);
    header.parts.push_back(part);
  }
  return HeaderStatus::complete;
}

}  // namespace ddp::internal
