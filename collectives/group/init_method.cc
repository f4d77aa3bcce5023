// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/init_method.h"

#include <algorithm>
#include <string_view>

#include "base/number.h"
#include "base/text.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: init_method " + what);
}

/// "rank=0&world_size=4".
void parse_query(std::string_view query, const std::string& text, InitMethod& method) {
  constexpr int kMax = 1 << 20;
  while (!query.empty()) {
    const std::string_view field = ddprun::take_piece(query, '&');
    const std::string_view name = field.substr(0, field.find('='));
    const auto value = ddprun::whole_number(field.substr(std::min(field.size(), name.size() + 1)),
                                            name == "rank" ? 0 : 1, kMax);
    if (name != "rank" && name != "world_size") {
      reject(text + ": " + std::string(name) + " is neither rank nor world_size");
    }
    if (!value) reject(text + ": " + std::string(field) + " is no such number");
    (name == "rank" ? method.rank : method.world_size) = value;
  }
}

void parse_endpoint(std::string_view endpoint, const std::string& text, InitMethod& method) {
  const std::size_t colon = endpoint.rfind(':');
  std::optional<int> port;
  if (colon != std::string_view::npos)
    port = ddprun::whole_number(endpoint.substr(colon + 1), 1, 65535);
  std::string_view host = endpoint.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || !port) reject(text + " is not tcp://HOST:PORT");
  method.host = host;
  method.port = static_cast<std::uint16_t>(*port);
}

}  // namespace

InitMethod parse_init_method(const std::string& text) {
  const std::size_t question = text.find('?');
  const std::string_view address = std::string_view(text).substr(0, question);
  InitMethod method;
  if (question != std::string::npos) {
    parse_query(std::string_view(text).substr(question + 1), text, method);
  }
  if (address == "env://") return method;
  if (address.starts_with("tcp://")) {
    method.scheme = InitMethod::Scheme::tcp;
    parse_endpoint(address.substr(6), text, method);
    return method;
  }
  if (address.starts_with("file:///") && address.size() > 8) {
    method.scheme = InitMethod::Scheme::file;
    method.path = address.substr(7);
    return method;
  }
  reject(text + " is none of env://, tcp://HOST:PORT and file:///PATH");
}

}  // namespace ddp::internal
