// SPDX-License-Identifier: Apache-2.0
#include "remote/launch_order.h"

#include <algorithm>
#include <optional>

#include "base/number.h"
#include "base/text.h"

namespace ddprun::remote {
namespace {

constexpr std::string_view kVersion = DDPRUN_VERSION;
constexpr std::string_view kName = "ddprun ";

Error invalid_order() {
  return {Errc::protocol,
          "invalid order on stdin: " + std::string(kAgentFlag) +
              " is for a ddprun that another ddprun starts; if one did, a start-up file of "
              "the login shell, such as ~/.bashrc, has read stdin"};
}

/// Splits texts that each end with a zero.
std::optional<std::vector<std::string>> split(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    texts.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return texts;
}

}  // namespace

std::string encode(const Order& order, size_t secret_length) {
  std::string body;
  const auto append = [&body](const std::string& text) {
    body += text;
    body += '\0';
  };
  append(order.directory);
  append(std::to_string(order.environment.size()));
  for (const std::string& variable : order.environment) append(variable);
  for (const std::string& argument : order.arguments) append(argument);
  return std::string(kName) + std::string(kVersion) + " " + std::to_string(body.size()) + " " +
         std::to_string(secret_length) + "\n" + body;
}

Result<Lengths> decode_head(std::string_view line) {
  if (!line.starts_with(kName)) return invalid_order();
  line.remove_prefix(kName.size());
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return invalid_order();
  if (const std::string_view version = line.substr(0, space); version != kVersion) {
    return Error{Errc::usage, "ddprun is version " + std::string(kVersion) + " here, and " +
                                  printable(version) +
                                  " where it was started: install the same version on all hosts"};
  }
  line.remove_prefix(space + 1);
  const size_t between = std::min(line.find(' '), line.size());
  const auto order = whole_number<size_t>(line.substr(0, between));
  const auto secret = whole_number<size_t>(line.substr(std::min(between + 1, line.size())));
  const bool valid = order && secret && *order <= kLongestOrder && *secret <= kLongestSecret;
  if (!valid) return invalid_order();
  return Lengths{*order, *secret};
}

Result<Order> decode_body(std::string_view bytes) {
  const std::optional<std::vector<std::string>> texts = split(bytes);
  if (!texts || texts->size() < 2) return invalid_order();
  const std::optional<size_t> variables = whole_number<size_t>((*texts)[1]);
  if (!variables || *variables > texts->size() - 2) return invalid_order();
  const auto first = texts->begin() + 2;
  const auto arguments = first + static_cast<std::ptrdiff_t>(*variables);
  return Order{texts->front(), {first, arguments}, {arguments, texts->end()}};
}

}  // namespace ddprun::remote
