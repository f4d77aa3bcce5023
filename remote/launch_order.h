// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The order of one command to the agents that it starts on other hosts. It travels over their
// stdin, so that no shell of a host reads it, no list of processes shows it, and no limit of a
// command line cuts it. After the order, each byte is the number of a signal, or 0: a sign of life.
// Pure.

namespace ddprun::remote {

/// The only argument of a ddprun that takes an order from stdin.
inline constexpr std::string_view kAgentFlag = "--remote_agent";

struct Order {
  std::string directory;
  std::vector<std::string> environment;  ///< "NAME=value", added to the host's own
  std::vector<std::string> arguments;    ///< a command line of ddprun, without argv[0]
};

/// "ddprun VERSION LENGTH SECRET_LENGTH\n", and LENGTH bytes. The caller sends the job's secret, as
/// text, after it: no string here contains it, so that memory has no copies.
std::string encode(const Order& order, size_t secret_length = 0);

/// No order is longer.
inline constexpr size_t kLongestOrder = size_t{16} << 20;
/// No secret is longer.
inline constexpr size_t kLongestSecret = 1024;
/// No first line is longer.
inline constexpr size_t kLongestHead = 100;

/// The number of bytes after the first line.
struct Lengths {
  size_t order = 0;
  size_t secret = 0;  ///< 0: the job has none, or passes it on otherwise
};

/// Parses the first line, without its newline. Errors: usage (another version sent it), protocol.
Result<Lengths> decode_head(std::string_view line);

/// Errors: protocol.
Result<Order> decode_body(std::string_view bytes);

}  // namespace ddprun::remote
