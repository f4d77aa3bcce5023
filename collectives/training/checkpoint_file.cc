// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_file.h"

#include "collectives/call/call.h"
#include "collectives/little_endian.h"

namespace ddp::internal {
namespace {

constexpr std::string_view kMagic = "ddp checkpoint 1";
constexpr std::size_t kFixed = 40;
constexpr std::uint64_t kTypes = 1 + static_cast<std::uint64_t>(DataType::int64);
constexpr std::uint64_t kMaxData = std::uint64_t{1} << 62;

void put_number(std::string& out, std::uint64_t number) {
  put_little_endian(out, number);
}

std::uint64_t get_number(std::string_view bytes, std::size_t at) {
  return get_little_endian<std::uint64_t>(bytes, at);
}

}  // namespace

std::uint64_t CheckpointHeader::data_size() const {
  std::uint64_t total = 0;
  for (const CheckpointPart& part : parts) total += part.count * size_of(part.type);
  return total;
}

std::string encode(const CheckpointHeader& header) {
  std::string out(kMagic);
  out.reserve(header.size());
  put_number(out, header.checksum);
  put_number(out, header.version);
  put_number(out, header.parts.size());
  for (const CheckpointPart& part : header.parts) {
    put_number(out, static_cast<std::uint64_t>(part.type));
    put_number(out, part.count);
  }
  return out;
}

HeaderStatus decode(std::string_view bytes, CheckpointHeader& header) {
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) {
    return HeaderStatus::malformed;
  }
  if (bytes.size() < kFixed) return HeaderStatus::incomplete;
  const std::uint64_t parts = get_number(bytes, 32);
  if (parts > kMaxCheckpointParts) return HeaderStatus::malformed;
  if ((bytes.size() - kFixed) / 16 < parts) return HeaderStatus::incomplete;
  header.checksum = get_number(bytes, 16);
  header.version = get_number(bytes, 24);
  header.parts.clear();
  std::uint64_t left = kMaxData;
  for (std::size_t at = kFixed; at < kFixed + 16 * parts; at += 16) {
    const std::uint64_t type = get_number(bytes, at);
    if (type >= kTypes) return HeaderStatus::malformed;
    const CheckpointPart part{static_cast<DataType>(type), get_number(bytes, at + 8)};
    if (part.count >= left / size_of(part.type)) return HeaderStatus::malformed;
    left -= part.count * size_of(part.type);
    header.parts.push_back(part);
  }
  return HeaderStatus::complete;
}

}  // namespace ddp::internal
