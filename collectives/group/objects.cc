// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/objects.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ddp::internal {
namespace {

Buffer as_bytes(std::string& text) {
  return {text.data(), text.size(), DataType::uint8};
}
ConstBuffer as_bytes(std::string_view text) {
  return {text.data(), text.size(), DataType::uint8};
}

std::size_t total(const std::vector<std::size_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

/// Cuts concatenated objects apart.
std::vector<std::string> cut(const std::string& bytes, const std::vector<std::size_t>& lengths) {
  std::vector<std::string> objects;
  std::size_t begin = 0;
  for (std::size_t length : lengths) {
    objects.push_back(bytes.substr(begin, length));
    begin += length;
  }
  return objects;
}

}  // namespace

void broadcast_object(GroupMember& group, std::string& object, int root) {
  auto length = static_cast<std::int64_t>(object.size());
  group.run(group.make.broadcast(std::span(&length, 1), root));
  object.resize(static_cast<std::size_t>(length));
  group.run(group.make.broadcast(as_bytes(object), root));
}

std::vector<std::string> gather_object(GroupMember& group, std::string_view object, int root) {
  const auto own = static_cast<std::int64_t>(object.size());
  const bool is_root = group.context.rank == root;
  std::vector<std::int64_t> gathered(is_root ? static_cast<std::size_t>(group.context.size) : 0);
  group.run(group.make.gather(std::span(&own, 1), gathered, root));
  const std::vector<std::size_t> lengths(gathered.begin(), gathered.end());
  std::string all(total(lengths), '\0');
  group.run(group.make.gather_v(as_bytes(object), as_bytes(all), lengths, root));
  return cut(all, lengths);
}

std::vector<std::string> all_gather_object(GroupMember& group, std::string_view object) {
  const auto own = static_cast<std::int64_t>(object.size());
  std::vector<std::int64_t> gathered(static_cast<std::size_t>(group.context.size));
  group.run(group.make.all_gather(std::span(&own, 1), gathered));
  const std::vector<std::size_t> lengths(gathered.begin(), gathered.end());
  std::string all(total(lengths), '\0');
  group.run(group.make.all_gather_v(as_bytes(object), as_bytes(all), lengths));
  return cut(all, lengths);
}

}  // namespace ddp::internal
