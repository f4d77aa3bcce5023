// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddp::internal {

/// Options::init_method, parsed.
struct InitMethod {
  enum class Scheme { env, tcp, file } scheme = Scheme::env;
  std::string host;        ///< of tcp
  std::uint16_t port = 0;  ///< of tcp
  std::string path;        ///< of file
  std::optional<int> rank;
  std::optional<int> world_size;
};

/// Throws ddp::Error of kind usage that says what is wrong.
InitMethod parse_init_method(const std::string& text);

}  // namespace ddp::internal
