// SPDX-License-Identifier: Apache-2.0
// Arbitrary text as the output of schedulers. Lists of hosts and counts are bounded, and a detected
// job is complete. The first byte selects the grammar, or the variable that gets the rest.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/detect.h"
#include "engine/host_list.h"
#include "engine/requeue.h"
#include "fuzz/target.h"

namespace {

using namespace ddprun;
using namespace ddprun::engine;
using fuzz::require;

void require_sound(const Result<Hosts>& hosts) {
  if (!hosts) return;
  require(!hosts->empty() && hosts->size() <= kMostHosts, "a list of hosts is bounded");
  for (const std::string& host : *hosts) require(!host.empty(), "a host has a name");
}

/// Splits text at zeros: "NAME=value" is a variable; any other text is the content of each file.
void detect_in(std::string_view text) {
  DetectionInput input;
  input.host = "node1";
  std::string file;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      file = line;
    } else {
      input.environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  input.read_file = [&file](const std::string&) { return file; };
  input.output_of = [&file](const std::vector<std::string>&) { return file; };
  const auto found = detect(std::nullopt, input);
  if (!found || !*found) return;
  const Allocation& allocation = **found;
  if (allocation.node_rank && allocation.nodes && !allocation.hosts.empty()) {
    require(allocation.node_rank->value < allocation.nodes->value, "a node rank is in range");
    require(allocation.master->value == allocation.hosts.front(), "node rank 0 is the master");
  }
  for (const std::uint16_t port : ports_of(allocation.job)) {
    require(port >= 10'000 && port < 32'768, "a port is not one of clients");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l':
      require_sound(expand_host_list(text));
      break;
    case 'c':
      if (const auto counts = expand_counts(text)) {
        require(!counts->empty() && counts->size() <= kMostHosts, "counts are bounded");
      }
      break;
    case 'p':
      require_sound(hosts_of_lines(text));
      break;
    case 's':
      require_sound(hosts_of_table(text));
      break;
    case 'm':
      require_sound(hosts_of_pairs(text));
      break;
    case 'j':
      if (const auto state = parse_job_state(text)) {
        require(!state->state.empty() && state->restarts >= 0, "a job has a state");
      }
      break;
    default:
      detect_in(text);
  }
  return 0;
}
