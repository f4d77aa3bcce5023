// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/facts.h"

// Messages between nodes, and the report for programs. Pure.

namespace ddprun::doctor {

std::string encode(const Order& order);
std::string encode(const Facts& facts);
std::string encode(const std::vector<Link>& links);

// nullopt: encode did not make it.
std::optional<Order> decode_order(std::string_view text);
std::optional<Facts> decode_facts(std::string_view text);

/// The links of the node of this rank. Drops links of other nodes, and links to ranks that a job of
/// `nodes` nodes does not have.
std::optional<std::vector<Link>> decode_links(std::string_view text, int rank, int nodes);

/// The report: "ok", "findings" and "nodes".
std::string report_json(const Findings& findings, const std::vector<Facts>& nodes);

}  // namespace ddprun::doctor
