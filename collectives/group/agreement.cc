// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/agreement.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "base/hash.h"
#include "collectives/call/call.h"
#include "collectives/group/group_access.h"

namespace ddp::internal {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string first_difference(const std::vector<std::string>& a, const std::string& name_of_a,
                             const std::vector<std::string>& b, const std::string& name_of_b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return (at_a == a.end() ? "nothing" : *at_a) + " on " + name_of_a + ", " +
         (at_b == b.end() ? "nothing" : *at_b) + " on " + name_of_b;
}

}  // namespace

std::string describe(const Buffer& buffer) {
  std::string type = name(buffer.type);
  if (buffer.type == DataType::opaque) type += " of " + std::to_string(buffer.width) + " bytes";
  return type + "[" + std::to_string(buffer.count) + "]";
}

void check_same_lines(ProcessGroup& group, const std::string& what,
                      const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  ddprun::Fnv64 digest;
  digest.add(text);
  const auto own = static_cast<std::int64_t>(digest.value());
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(&own, 1), all);
  const auto other =
      std::find_if(all.begin(), all.end(), [&](std::int64_t one) { return one != all.front(); });
  if (other == all.end()) return;

  const int rank = static_cast<int>(other - all.begin());
  const auto of = [&](int root) {
    std::string object = text;
    group.broadcast_object(object, root);
    return split_lines(object);
  };
  const auto named = [&](int root) {
    return "rank " + std::to_string(GroupAccess::named(group, root));
  };
  const auto first = of(0);
  throw Error(ErrorKind::mismatch, "ddp: ranks do not agree on " + what + ": " +
                                       first_difference(first, named(0), of(rank), named(rank)));
}

void check_succeeded(ProcessGroup& group, ErrorKind kind, const std::string& text, int root) {
  std::string failure = text;
  group.broadcast_object(failure, root);
  if (!failure.empty()) throw Error(kind, failure);
}

}  // namespace ddp::internal
