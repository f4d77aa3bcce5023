// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/compare.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ddprun::doctor {
namespace {

constexpr size_t kMostNames = 6;
constexpr size_t kMostValues = 6;

struct Trait {
  std::string_view name;
  Level level;  // if it differs
  std::string_view remedy;
};

// clang-format off
constexpr auto kTraits = std::to_array<Trait>({
    {"ddprun", Level::fail, "install one version of ddprun on all nodes"},
    {"program", Level::fail, "copy the program to every node again, or keep it on a shared disk"},
    {"Python", Level::fail, "use the same environment (venv, conda, image) on all nodes"},
    {"torch", Level::fail, "use the same environment (venv, conda, image) on all nodes"},
    {"jaxlib", Level::fail, "use the same environment (venv, conda, image) on all nodes"},
    {"NCCL", Level::fail, "use the same environment (venv, conda, image) on all nodes"},
    {"driver", Level::warn, "install one version of NVIDIA's driver on all nodes"},
    {"GPUs", Level::warn, "the slowest GPU sets the pace: ask the scheduler for equal nodes"},
    {"MTU", Level::warn, "ip link set dev INTERFACE mtu N: the same on all nodes and switches"},
});
// clang-format on

using Values = std::map<std::string, std::vector<int>>;  // nodes by value

std::string value_of(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "none" : found->second;
}

/// The values of all nodes that reported.
template <class Member>
Values values_of(const std::vector<Facts>& nodes, Member member, const std::string& name) {
  Values values;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (!nodes[node].missing.empty()) continue;
    values[value_of(nodes[node].*member, name)].push_back(static_cast<int>(node));
  }
  return values;
}

/// Lists the values, that of most nodes first.
std::string values_text(const Values& values, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::vector<int>>> sorted(values.begin(), values.end());
  std::ranges::stable_sort(sorted, [](const auto& one, const auto& other) {
    return one.second.size() > other.second.size();
  });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMostValues); ++i) {
    text += (i == 0 ? "" : "; ") + sorted[i].first + " on " + list_nodes(sorted[i].second, names);
  }
  if (sorted.size() > kMostValues) {
    text += "; and " + std::to_string(sorted.size() - kMostValues) + " more";
  }
  return text;
}

Findings compare_traits(const std::vector<Facts>& nodes, const std::vector<std::string>& names) {
  Findings findings;
  std::string equal;
  for (const Trait& trait : kTraits) {
    const std::string name(trait.name);
    const Values values = values_of(nodes, &Facts::traits, name);
    if (values.size() > 1) {
      findings.push_back(
          {trait.level, name, values_text(values, names), std::string(trait.remedy)});
    } else if (!values.empty() && values.begin()->first != "none") {
      equal += (equal.empty() ? "" : ", ") + name + " " + values.begin()->first;
    }
  }
  const std::string check = nodes.size() == 1 ? "this node" : "the same everywhere";
  if (!equal.empty()) findings.push_back({Level::ok, check, equal, ""});
  return findings;
}

Findings compare_variables(const std::vector<Facts>& nodes, const std::vector<std::string>& names) {
  std::set<std::string> variables;
  for (const Facts& node : nodes) {
    for (const auto& [name, value] : node.variables) variables.insert(name);
  }
  Findings findings;
  for (const std::string& name : variables) {
    const Values values = values_of(nodes, &Facts::variables, name);
    if (values.size() == 1) continue;
    findings.push_back({Level::warn, name, values_text(values, names),
                        "set it to the same value on all nodes, or nowhere"});
  }
  return findings;
}

/// The node that takes longest tells for all: their times differ a little.
Findings judge_imports(const std::vector<Facts>& nodes) {
  const auto slowest = std::ranges::max_element(nodes, {}, &Facts::import_seconds);
  if (slowest == nodes.end() || slowest->imports.empty() || slowest->import_seconds < 1) return {};
  return {{Level::warn, "imports",
           "each of " + count_text(slowest->workers, "worker") + " of a node would import " +
               slowest->imports + " for more than " + std::to_string(slowest->import_seconds) +
               " s",
           "--preload " + slowest->imports + " imports it once on each node"}};
}

/// The nodes have the same program.
Findings judge_gloo(const std::vector<Facts>& nodes) {
  const auto found =
      std::ranges::find_if(nodes, [](const Facts& node) { return !node.gloo_line.empty(); });
  if (found == nodes.end()) return {};
  return {{Level::warn, "gloo",
           "line " + found->gloo_line + " of the program makes a group of gloo",
           "init_process_group(\"ddp\") takes less time for a call, and its errors name ranks"}};
}

}  // namespace

std::vector<std::string> node_names(const std::vector<Facts>& nodes) {
  std::map<std::string, int> count;
  for (const Facts& node : nodes) ++count[node.host];
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string& host = nodes[i].host;
    names.push_back(count[host] == 1 ? host : host + " (node " + std::to_string(i) + ")");
  }
  return names;
}

std::string list_nodes(const std::vector<int>& nodes, const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(nodes.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names.at(static_cast<size_t>(nodes[i]));
  }
  if (nodes.size() > kMostNames) {
    text += " and " + std::to_string(nodes.size() - kMostNames) + " more";
  }
  return text;
}

Findings compare(const std::vector<Facts>& nodes) {
  const std::vector<std::string> names = node_names(nodes);
  Findings findings = compare_traits(nodes, names);
  for (Finding& finding : compare_variables(nodes, names)) findings.push_back(std::move(finding));
  for (Finding& finding : judge_imports(nodes)) findings.push_back(std::move(finding));
  for (Finding& finding : judge_gloo(nodes)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace ddprun::doctor
