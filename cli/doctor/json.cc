// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "cli/doctor/compare.h"
#include "cli/doctor/report.h"

namespace ddprun::doctor {

// These functions are in the types' namespace, where the library finds them.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Order, problem, workers_problem, program, python,
                                                folders, devices, workers, gives_gloo_interface,
                                                preloads, json, bench)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gpu, is_lost, needs_reset, is_worn_out,
                                                uncorrected_errors, memory_used, slowed, links_up,
                                                links_down)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Folder, path, error, free)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Facts, host, missing, traits, variables, problem, workers_problem, workers, imports,
    import_seconds, gloo_line, way, interface, mtu, speed, name_address, gloo_address, gloo_is_set,
    nccl_interface, nccl_address, no_interface, port, bench, token, shared_memory, open_files,
    locked_memory, stack, memory, cpus, folders, gpus, gpu_health, gpu_errors, driver_differs,
    has_fabric, inactive_ports, ptrace_scope, has_py_spy)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Link, from, to, use, address, error, round_trip,
                                                clock_ahead, path_mtu, under_load, is_measured,
                                                lost_large, mbits_per_second)

namespace {

/// Replaces invalid UTF-8, for example in paths.
/// Whether each number with a fraction can become a number of any type here, even an int.
bool has_usual_numbers(const Json& json) {
  constexpr double kMost = std::numeric_limits<int>::max();
  if (json.is_number_float()) return std::abs(json.get<double>()) <= kMost;
  return !json.is_structured() || std::all_of(json.begin(), json.end(), has_usual_numbers);
}

/// nullopt: it is no such JSON, or a member has another type.
template <class T>
std::optional<T> decode(std::string_view text) {
  const auto json = parse_bounded(text);
  if (!has_usual_numbers(json)) return std::nullopt;
  try {
    return json.template get<T>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warn:
      return "warn";
    case Level::fail:
      return "fail";
  }
  return {};
}

}  // namespace

std::string encode(const Order& order) {
  return json_text(Json(order));
}

std::string encode(const Facts& facts) {
  return json_text(Json(facts));
}

std::string encode(const std::vector<Link>& links) {
  return json_text(Json(links));
}

std::optional<Order> decode_order(std::string_view text) {
  return decode<Order>(text);
}

std::optional<Facts> decode_facts(std::string_view text) {
  return decode<Facts>(text);
}

std::optional<std::vector<Link>> decode_links(std::string_view text, int rank, int nodes) {
  std::optional<std::vector<Link>> links = decode<std::vector<Link>>(text);
  if (links) {
    std::erase_if(*links, [&](const Link& link) {
      return link.from != rank || link.to < 0 || link.to >= nodes || link.to == rank;
    });
  }
  return links;
}

std::string report_json(const Findings& findings, const std::vector<Facts>& nodes) {
  const std::vector<std::string> names = node_names(nodes);
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json about = Json::array();
    for (const int node : finding.nodes) about.push_back(names.at(static_cast<size_t>(node)));
    list.push_back({{"level", level_name(finding.level)},
                    {"check", finding.check},
                    {"text", finding.text},
                    {"remedy", finding.remedy},
                    {"nodes", about}});
  }
  const Json report = {{"ok", !has_failure(findings)}, {"findings", list}, {"nodes", nodes}};
  return json_text(report, 2) + "\n";
}

}  // namespace ddprun::doctor
