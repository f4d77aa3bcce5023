// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <sys/utsname.h>
#include <utility>

#include "collectives/group/process_group_impl.h"

namespace ddp {
namespace {

/// Cuts what all_gather_v and gather_v put together.
std::vector<std::string> cut(const std::string& bytes, const std::vector<std::size_t>& lengths) {
  std::vector<std::string> objects;
  std::size_t begin = 0;
  for (std::size_t length : lengths) {
    objects.push_back(bytes.substr(begin, length));
    begin += length;
  }
  return objects;
}

Buffer bytes_of(std::string& text) {
  return {text.data(), text.size(), DataType::uint8};
}
ConstBuffer bytes_of(std::string_view text) {
  return {text.data(), text.size(), DataType::uint8};
}

/// The same for all processes of a machine, and for no other.
std::string name_of_machine() {
  utsname names{};
  ::uname(&names);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot + " " + names.nodename;
}

std::size_t total(const std::vector<std::size_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

}  // namespace

void ProcessGroup::broadcast_object(std::string& object, int root) {
  auto length = static_cast<std::int64_t>(object.size());
  broadcast(std::span(&length, 1), root);
  object.resize(static_cast<std::size_t>(length));
  broadcast(bytes_of(object), root);
}

std::vector<std::string> ProcessGroup::gather_object(std::string_view object, int root) {
  const auto own = static_cast<std::int64_t>(object.size());
  const bool mine = rank() == root;
  std::vector<std::int64_t> told(mine ? static_cast<std::size_t>(size()) : 0);
  gather(std::span(&own, 1), told, root);
  const std::vector<std::size_t> lengths(told.begin(), told.end());
  std::string all(total(lengths), '\0');
  gather_v(bytes_of(object), bytes_of(all), lengths, root);
  return cut(all, lengths);
}

std::vector<std::string> ProcessGroup::all_gather_object(std::string_view object) {
  const auto own = static_cast<std::int64_t>(object.size());
  std::vector<std::int64_t> told(static_cast<std::size_t>(size()));
  all_gather(std::span(&own, 1), told);
  const std::vector<std::size_t> lengths(told.begin(), told.end());
  std::string all(total(lengths), '\0');
  all_gather_v(bytes_of(object), bytes_of(all), lengths);
  return cut(all, lengths);
}

std::optional<ProcessGroup> ProcessGroup::new_group(std::span<const int> ranks) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::usage, "ddp: rank " + std::to_string(rank()) + ": new_group of " + what);
  };
  if (ranks.empty()) refuse("no ranks");
  for (const int listed : ranks) {
    const std::string named = "rank " + std::to_string(listed);
    if (listed < 0 || listed >= size()) {
      refuse(named + ", but ranks are 0 to " + std::to_string(size() - 1));
    }
    if (std::ranges::count(ranks, listed) > 1) refuse(named + " twice");
  }
  const std::string_view list{reinterpret_cast<const char*>(ranks.data()), ranks.size_bytes()};
  const auto lists = all_gather_object(list);
  for (std::size_t other = 0; other < lists.size(); ++other) {
    if (lists[other] == list) continue;
    throw Error(impl_->calls->fail(
        Error(ErrorKind::mismatch, "ddp: rank " + std::to_string(rank()) +
                                       " makes a new_group of other ranks than rank " +
                                       std::to_string(other))));
  }
  return part({ranks.begin(), ranks.end()}, 0);
}

std::optional<ProcessGroup> ProcessGroup::split(int color, int key) {
  const std::array<std::int32_t, 2> own = {color, key};
  std::vector<std::int32_t> told(2 * static_cast<std::size_t>(size()));
  all_gather(own, told);
  std::vector<std::pair<int, int>> keyed;  // and the rank
  for (int other = 0; other < size(); ++other) {
    const auto at = 2 * static_cast<std::size_t>(other);
    if (color >= 0 && told[at] == color) keyed.emplace_back(told[at + 1], other);
  }
  std::ranges::sort(keyed);
  std::vector<int> members;
  for (const auto& [_, member] : keyed) members.push_back(member);
  return part(members, color);
}

ProcessGroup ProcessGroup::split_by_node() {
  const auto machines = all_gather_object(name_of_machine());
  const std::string& ours = machines[static_cast<std::size_t>(rank())];
  std::vector<int> members;
  for (int other = 0; other < size(); ++other) {
    if (machines[static_cast<std::size_t>(other)] == ours) members.push_back(other);
  }
  return *part(members, members.front());
}

/// `color` tells apart what is made by one call.
std::optional<ProcessGroup> ProcessGroup::part(const std::vector<int>& members, int color) {
  const int number = impl_->parts++;
  const auto own = std::ranges::find(members, rank());
  if (own == members.end()) return std::nullopt;
  internal::Rendezvous met = impl_->met;
  met.place = {static_cast<int>(own - members.begin()), static_cast<int>(members.size())};
  met.prefix += std::to_string(number) + "/" + std::to_string(color) + "/";
  std::vector<int> whole;
  for (const int member : members) {
    whole.push_back(impl_->whole.empty() ? member : impl_->whole[static_cast<std::size_t>(member)]);
  }
  return ProcessGroup(std::make_unique<Impl>(std::move(met), impl_->calls->limit(),
                                             impl_->backend_name, std::move(whole),
                                             impl_->calls->broadcast()));
}

}  // namespace ddp
