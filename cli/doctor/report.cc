// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/report.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/doctor/compare.h"
#include "cli/doctor/judge_node.h"
#include "cli/doctor/pairs.h"

namespace ddprun::doctor {
namespace {

constexpr size_t kMostText = 2'000;  // bytes of a line; a node may have sent any

std::string_view label(Level level) {
  switch (level) {
    case Level::ok:
      return "ok    ";
    case Level::warn:
      return "warn  ";
    case Level::fail:
      return "FAIL  ";
  }
  return {};
}

/// The text as one line without control characters.
std::string line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return printable(cut(std::move(text), kMostText));
}

std::string finding_text(const Finding& finding, const std::vector<std::string>& names) {
  std::string text(label(finding.level));
  text += finding.check;
  const bool of_some = !finding.nodes.empty() && finding.nodes.size() < names.size();
  if (of_some) text += " (" + list_nodes(finding.nodes, names) + ")";
  if (!finding.text.empty()) text += ": " + finding.text;
  text = line(std::move(text)) + "\n";
  if (!finding.remedy.empty()) text += "      -> " + line(finding.remedy) + "\n";
  return text;
}

std::string counted(std::ptrdiff_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

void append(Findings& all, Findings more) {
  for (Finding& finding : more) all.push_back(std::move(finding));
}

std::string remedy(Errc code, const std::string& endpoint) {
  if (code == Errc::port_in_use) {
    return "another job or program has the port: give another one, --rdzv_endpoint HOST:PORT";
  }
  if (code == Errc::usage) return "give all nodes the same flags and the same secret, or none";
  return "start ddprun doctor on all nodes with the same flags; TCP connections to " + endpoint +
         " have to pass (routes, firewall, security group)";
}

}  // namespace

Findings examine(const std::vector<Facts>& nodes, const std::vector<Link>& links) {
  Findings all = judge_nodes(nodes);
  append(all, compare(nodes));
  if (nodes.size() > 1) append(all, judge_links(nodes, links));
  std::ranges::stable_sort(all, std::greater<>(), &Finding::level);
  return all;
}

Findings judge_rendezvous(const Error& error, const EndpointView& endpoint) {
  const std::string text = endpoint_text(endpoint.host, endpoint.port);
  const bool stands_for = !endpoint.address.empty() && endpoint.address != endpoint.host;
  Findings findings = {
      {Level::fail, "rendezvous",
       error.message + (stands_for ? "; here " + endpoint.host + " is " + endpoint.address : ""),
       remedy(error.code, text)}};
  const bool traps = endpoint.nodes > 1 && is_loopback_address(endpoint.address) &&
                     !endpoint.host.starts_with("127.") && endpoint.host != "localhost" &&
                     endpoint.host != endpoint.own_name;
  if (traps) {
    findings.push_back({Level::fail, "endpoint",
                        endpoint.host + " stands for " + endpoint.address +
                            " on this host, so it waits for the nodes itself",
                        "give " + endpoint.host +
                            " its real address in /etc/hosts, or the address as --rdzv_endpoint"});
  }
  return findings;
}

bool has_failure(const Findings& findings) {
  return std::ranges::any_of(findings, [](const auto& f) { return f.level == Level::fail; });
}

std::string report_text(const Findings& findings, const std::vector<Facts>& nodes) {
  const std::vector<std::string> names = node_names(nodes);
  std::string text;
  for (const Finding& finding : findings) text += finding_text(finding, names);
  const auto count = [&](Level level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  return text + "doctor: " + counted(count(Level::fail), "failure", "failures") + ", " +
         counted(count(Level::warn), "warning", "warnings") + ", " +
         std::to_string(count(Level::ok)) + " ok; " + counted(std::ssize(nodes), "node", "nodes") +
         "\n";
}

}  // namespace ddprun::doctor
