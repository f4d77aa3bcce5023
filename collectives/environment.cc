// SPDX-License-Identifier: Apache-2.0
#include "collectives/environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ddp/error.h"

namespace ddp::internal {
namespace {

const char* required(const char* variable) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return value;
  throw Error(ErrorKind::usage,
              std::string("ddp: ") + variable +
                  " is not set: start the program with ddprun, which tells every worker its place "
                  "(ddprun --nproc_per_node 4 ./program)");
}

int integer(const char* variable, int low, int high) {
  const std::string_view text = required(variable);
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && value >= low && value <= high) {
    return value;
  }
  throw Error(ErrorKind::usage, std::string("ddp: ") + variable + "=" + std::string(text) +
                                    " is not a number from " + std::to_string(low) + " to " +
                                    std::to_string(high));
}

}  // namespace

Environment read_environment() {
  constexpr int kMaxSize = 1 << 20;
  Environment found;
  found.rank = integer("RANK", 0, kMaxSize - 1);
  found.size = integer("WORLD_SIZE", 1, kMaxSize);
  if (found.rank >= found.size) {
    throw Error(ErrorKind::usage, "ddp: RANK=" + std::to_string(found.rank) +
                                      " is not below WORLD_SIZE=" + std::to_string(found.size));
  }
  if (found.size == 1) return found;
  found.master_addr = required("MASTER_ADDR");
  found.master_port = static_cast<std::uint16_t>(integer("MASTER_PORT", 1, 65535));
  const char* agent_store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  found.agent_store = agent_store != nullptr && std::strcmp(agent_store, "True") == 0;
  return found;
}

}  // namespace ddp::internal
