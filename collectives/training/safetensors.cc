// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/safetensors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "collectives/call/call.h"
#include "collectives/little_endian.h"

namespace ddp::internal {
namespace {

using ddprun::Json;

constexpr std::size_t kSizeBytes = 8;
constexpr std::size_t kMaxValues = 16 * kMaxCheckpointParts;  // in the header; a part of ours has 8
constexpr std::string_view kSumPrefix = "xxh3:";
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "ddp.checksum";
constexpr const char* kGeneration = "ddp.generation";
constexpr const char* kVersion = "ddp.version";

/// By DataType; other types are saved as their parts.
constexpr std::array kTypeNames = {"F16", "BF16", "F32", "F64", "I8",   "U8",      "I32",    "I64",
                                   "I16", "U16",  "U32", "U64", "BOOL", "F8_E4M3", "F8_E5M2"};
static_assert(kTypeNames.size() == static_cast<std::size_t>(DataType::complex64));

std::string part_name(std::size_t part) {
  return "part_" + std::to_string(part);
}

/// Reads all of `text`, in base 10 or 16, without a sign.
std::optional<std::uint64_t> read_number(std::string_view text, int base) {
  return ddprun::whole_number<std::uint64_t>(text, 0, UINT64_MAX, base);
}

/// Returns the text of an object's field; nothing if the field is missing or no text.
std::optional<std::string_view> text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return std::string_view(found->get_ref<const std::string&>());
}

/// A file of ddp has a version and a checksum, a file of another program neither. So if one of the
/// two names is damaged, the file is not taken for another program's.
bool read_metadata(const Json& metadata, CheckpointHeader& header) {
  if (!metadata.is_object()) return false;
  const auto version = text_field(metadata, kVersion);
  const auto checksum = text_field(metadata, kChecksum);
  if (!version && !checksum) return true;
  if (!version || !checksum || !checksum->starts_with(kSumPrefix)) return false;
  const auto read_version = read_number(*version, 10);
  header.checksum = read_number(checksum->substr(kSumPrefix.size()), 16);
  const auto generation = read_number(text_field(metadata, kGeneration).value_or(""), 10);
  if (!read_version || !header.checksum || !generation) return false;
  header.version = *read_version;
  header.generation = *generation;
  return true;
}

/// Returns the product of a shape; nothing if it is no shape, or more than memory holds.
std::optional<std::uint64_t> count_of(const Json& shape) {
  if (!shape.is_array()) return std::nullopt;
  std::uint64_t count = 1;
  for (const Json& length : shape) {
    if (!length.is_number_unsigned()) return std::nullopt;
    const auto factor = length.get<std::uint64_t>();
    if (factor != 0 && count > kMaxCheckpointData / factor) return std::nullopt;
    count *= factor;
  }
  return count;
}

std::optional<CheckpointPart> read_part(const Json& tensor) {
  if (!tensor.is_object() || !tensor.contains("shape") || !tensor.contains("data_offsets")) {
    return std::nullopt;
  }
  const auto type = std::ranges::find(kTypeNames, text_field(tensor, "dtype").value_or(""));
  const auto count = count_of(tensor["shape"]);
  const Json& ends = tensor["data_offsets"];
  const bool valid = type != kTypeNames.end() && count && ends.is_array() && ends.size() == 2 &&
                     ends[0].is_number_unsigned() && ends[1].is_number_unsigned();
  if (!valid) return std::nullopt;
  const CheckpointPart part{static_cast<DataType>(type - kTypeNames.begin()), *count,
                            ends[0].get<std::uint64_t>()};
  const auto end = ends[1].get<std::uint64_t>();
  if (part.offset > end) return std::nullopt;
  const std::uint64_t bytes = end - part.offset;
  const std::size_t size = size_of(part.type);
  return bytes % size == 0 && bytes / size == part.count ? std::optional(part) : std::nullopt;
}

/// Whether the elements are adjacent, without gaps or overlaps, and memory could hold them.
bool are_adjacent(std::vector<CheckpointPart> parts) {
  std::ranges::sort(parts, {},
                    [](const CheckpointPart& part) { return std::pair(part.offset, part.count); });
  std::uint64_t at = 0;
  for (const CheckpointPart& part : parts) {
    if (part.offset != at) return false;
    at += part.count * size_of(part.type);
  }
  return at < kMaxCheckpointData;
}

bool read_tensors(const Json& json, CheckpointHeader& header) {
  const std::size_t parts = json.size() - json.count(kMetadata);
  if (parts > kMaxCheckpointParts) return false;
  header.parts.assign(parts, {});
  std::vector<bool> found(parts);
  for (const auto& [name, tensor] : json.items()) {
    if (name == kMetadata) continue;
    const auto index =
        read_number(std::string_view(name).substr(std::min<std::size_t>(name.size(), 5)), 10);
    const auto part = read_part(tensor);
    if (!part || !index || *index >= parts || name != part_name(*index) || found[*index])
      return false;
    found[*index] = true;
    header.parts[*index] = *part;
  }
  return are_adjacent(header.parts);
}

}  // namespace

std::string encode_safetensors(const CheckpointHeader& header) {
  Json json;
  json[kMetadata] = {
      {kChecksum, std::string(kSumPrefix) + ddprun::hex_text(header.checksum.value(), 16)},
      {kGeneration, std::to_string(header.generation)},
      {kVersion, std::to_string(header.version)}};
  for (std::size_t i = 0; i < header.parts.size(); ++i) {
    const CheckpointPart& part = header.parts[i];
    const std::uint64_t end = part.offset + part.count * size_of(part.type);
    json[part_name(i)] = {{"dtype", kTypeNames[static_cast<std::size_t>(part.type)]},
                          {"shape", Json::array({part.count})},
                          {"data_offsets", Json::array({part.offset, end})}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  put_little_endian(out, std::uint64_t{text.size()});
  return out + text;
}

HeaderStatus decode_safetensors(std::string_view bytes, CheckpointHeader& header) {
  if (bytes.size() < kSizeBytes) return HeaderStatus::incomplete;
  const auto size = get_little_endian<std::uint64_t>(bytes, 0);
  if (size > kMaxCheckpointHeader - kSizeBytes) return HeaderStatus::malformed;
  const std::string_view text = bytes.substr(kSizeBytes, size);
  if (!text.empty() && text.front() != '{') return HeaderStatus::malformed;
  if (text.size() < size) return HeaderStatus::incomplete;
  const auto json = ddprun::parse_bounded(text, kMaxValues);
  header = {.size = kSizeBytes + size};
  if (!json.is_object() || !read_tensors(json, header)) return HeaderStatus::malformed;
  const bool valid = !json.contains(kMetadata) || read_metadata(json[kMetadata], header);
  return valid ? HeaderStatus::complete : HeaderStatus::malformed;
}

}  // namespace ddp::internal
