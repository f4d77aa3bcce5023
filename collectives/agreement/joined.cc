// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement/joined.h"

#include <algorithm>
#include <string_view>

#include "collectives/agreement/process_end.h"
#include "collectives/agreement/rank_status.h"

namespace ddp::internal {
namespace {

constexpr const char* kVersion = DDPRUN_VERSION;

std::string library_of(std::string_view line) {
  return std::string(line.substr(line.rfind(' ') + 1));
}

std::string backend_of(std::string_view line) {
  const std::string library = library_of(line);
  return library.substr(0, library.find('/'));
}

std::string version_of(std::string_view line) {
  const std::string library = library_of(line);
  const std::size_t slash = library.find('/');
  return slash == library.npos ? "an older one" : library.substr(slash + 1);
}

template <class ValueOf>
std::optional<AgreedError> difference(const std::vector<std::string>& lines, ValueOf value_of,
                                      const std::string& what, const std::string& remedy) {
  const std::string first = value_of(lines.front());
  const auto other =
      std::ranges::find_if(lines, [&](const auto& line) { return value_of(line) != first; });
  if (other == lines.end()) return std::nullopt;
  return AgreedError{ErrorKind::mismatch, ": ranks do not agree on " + what + ": " + first +
                                              " on rank 0, " + value_of(*other) + " on rank " +
                                              std::to_string(other - lines.begin()) + "; " +
                                              remedy};
}

}  // namespace

void publish_joined(const GroupContext& context, const std::string& own) {
  const std::string line = own + " " + process_name() + " " + context.backend + "/" + kVersion;
  ask_store(context, [&](Store& store) { store.set(joined_key(context, context.rank), line); });
}

std::vector<std::string> joined_lines(const GroupContext& context, const std::vector<int>& ranks) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(joined_key(context, rank));
  std::vector<std::string> lines;
  ask_store(context, [&](Store& store) { lines = store.multi_get(keys, context.timeout); });
  return lines;
}

/// The default backend depends on what a host has, so it may differ between ranks.
std::optional<AgreedError> judge_joined(const std::vector<std::string>& lines) {
  if (auto other = difference(lines, version_of, "the version of ddp",
                              "install the same on all hosts, and build the program with it")) {
    return other;
  }
  return difference(lines, backend_of, "the backend",
                    "name one in Options::backend on all of them");
}

}  // namespace ddp::internal
