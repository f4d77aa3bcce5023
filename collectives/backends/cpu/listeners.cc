// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/listeners.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>

#include "collectives/backends/agreed_error.h"

namespace ddp::internal {
namespace {

std::uint64_t random_token() {
  std::random_device random;  // 32 bits at a time
  return std::uint64_t{random()} << 32U | random();
}

/// Of what publish() writes; a rank reads as many as there are ranks.
std::optional<CpuListeners::Listener> listener_in(std::string_view line) {
  const std::size_t host = line.find(' ');
  if (host == std::string_view::npos) return std::nullopt;
  boost::system::error_code error;
  const auto address =
      boost::asio::ip::make_address(std::string(line.substr(0, host)).c_str(), error);
  std::uint16_t port = 0;
  std::uint64_t token = 0;
  const char* const end = line.data() + line.size();
  const auto after_port = std::from_chars(line.data() + host + 1, end, port);
  if (error || after_port.ec != std::errc() || after_port.ptr == end) return std::nullopt;
  if (std::from_chars(after_port.ptr + 1, end, token).ec != std::errc()) return std::nullopt;
  return CpuListeners::Listener{{address, port}, token};
}

}  // namespace

CpuListeners::CpuListeners(const GroupContext& context)
    : context_(context),
      own_(io_context_, {boost::asio::ip::make_address(context.address), 0}),
      all_(static_cast<std::size_t>(context.size)) {
  all_[static_cast<std::size_t>(context_.rank)] = {own_.local_endpoint(), random_token()};
  publish();
  wait_for_all_ranks(context_, "joined");
  read();
}

/// "ADDRESS PORT TOKEN BACKEND".
void CpuListeners::publish() const {
  const auto& [endpoint, token] = at(context_.rank);
  const std::string line = endpoint.address().to_string() + " " + std::to_string(endpoint.port()) +
                           " " + std::to_string(token) + " " + context_.backend;
  ask_store(context_, [&](Store& store) { store.set(key(context_.rank), line); });
}

void CpuListeners::read() {
  std::vector<std::string> keys;
  for (int rank = 0; rank < context_.size; ++rank) keys.push_back(key(rank));
  std::vector<std::string> lines;
  ask_store(context_, [&](Store& store) { lines = store.multi_get(keys, context_.timeout); });
  check_backends(lines);
  for (int rank = 0; rank < context_.size; ++rank) {
    const auto listener = listener_in(lines[static_cast<std::size_t>(rank)]);
    if (!listener) {
      throw own_error(context_, ErrorKind::system,
                      ": " + key(rank) + " in the store is not of this program");
    }
    all_[static_cast<std::size_t>(rank)] = *listener;
  }
}

/// The default backend depends on what a host has, so ranks may come to different ones.
void CpuListeners::check_backends(const std::vector<std::string>& lines) const {
  const auto backend = [](std::string_view line) {
    return std::string(line.substr(line.rfind(' ') + 1));
  };
  const std::string first = " " + backend(lines.front());
  const auto other =
      std::ranges::find_if(lines, [&](const auto& line) { return !line.ends_with(first); });
  if (other == lines.end()) return;
  outlast_other_ranks();
  throw own_error(context_, ErrorKind::mismatch,
                  ": ranks do not agree on the backend: " + backend(lines.front()) +
                      " on rank 0, " + backend(*other) + " on rank " +
                      std::to_string(other - lines.begin()) +
                      "; name one in Options::backend on all of them");
}

/// Lets the others read the keys first, if the store ends with this process.
void CpuListeners::outlast_other_ranks() const {
  GroupContext brief = context_;
  brief.timeout = std::min(context_.timeout, std::chrono::milliseconds(5000));
  try {
    ask_store(brief, [&](Store& store) {
      store.set(context_.prefix + "leaving/" + std::to_string(context_.rank), "");
    });
    if (context_.rank_0_serves && context_.rank == 0) wait_for_all_ranks(brief, "leaving");
  } catch (const Error&) {
    // They are late, or gone.
  }
}

void CpuListeners::release_to(boost::asio::ip::tcp::acceptor& acceptor) {
  const auto protocol = at(context_.rank).endpoint.protocol();
  acceptor.assign(protocol, own_.release());
}

}  // namespace ddp::internal
