// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/interfaces.h"

#include <algorithm>

#include "base/text.h"

namespace ddprun::doctor {
namespace {

template <class Wanted>
Interface first(const std::vector<Interface>& interfaces, Wanted wanted) {
  const auto found = std::ranges::find_if(interfaces, wanted);
  return found == interfaces.end() ? Interface() : *found;
}

/// Whether NCCL_SOCKET_IFNAME admits this name. It has beginnings of names; "=" makes them whole
/// names, "^" excludes them.
bool admits(std::string_view told, std::string_view name) {
  const bool excludes = told.starts_with('^');
  if (excludes) told.remove_prefix(1);
  const bool exact = told.starts_with('=');
  if (exact) told.remove_prefix(1);
  bool listed = false;
  while (!told.empty()) {
    std::string_view item = take_piece(told, ',');
    item = item.substr(0, item.find(':'));
    listed = listed || (exact ? name == item : name.starts_with(item));
  }
  return listed != excludes;
}

}  // namespace

Interface nccl_interface(const std::vector<Interface>& interfaces, std::string_view told) {
  if (!told.empty()) {
    return first(interfaces, [&](const Interface& i) { return admits(told, i.name); });
  }
  const auto is_docker = [](const Interface& i) { return i.name.starts_with("docker"); };
  Interface best = first(interfaces, [](const Interface& i) { return i.name.starts_with("ib"); });
  if (best.name.empty()) {
    best = first(interfaces, [&](const auto& i) { return !i.is_loopback && !is_docker(i); });
  }
  if (best.name.empty()) best = first(interfaces, is_docker);
  if (best.name.empty()) best = first(interfaces, [](const auto& i) { return i.is_loopback; });
  return best;
}

Interface interface_named(const std::vector<Interface>& interfaces, std::string_view name) {
  return first(interfaces, [&](const Interface& i) { return i.name == name; });
}

Interface interface_with(const std::vector<Interface>& interfaces, std::string_view address) {
  return first(interfaces, [&](const Interface& i) { return i.address == address; });
}

}  // namespace ddprun::doctor
