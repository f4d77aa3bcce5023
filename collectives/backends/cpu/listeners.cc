// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/listeners.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "collectives/agreement/joined.h"
#include "collectives/agreement/rank_status.h"
#include "collectives/backends/cpu/begin_to_connect.h"
#include "collectives/backends/shm/offer.h"
#include "collectives/errors.h"
#include "collectives/kept_from_children.h"

namespace ddp::internal {
namespace {

namespace ip = boost::asio::ip;

std::uint64_t random_token() {
  std::random_device random;  // 32 bits at a time
  return std::uint64_t{random()} << 32U | random();
}

CpuListeners::Packed packed(const ip::tcp::endpoint& endpoint, std::uint64_t token) {
  const ip::address address = endpoint.address();
  const ip::address_v6 wide =
      address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6();
  return {.address = wide.to_bytes(), .token = token, .port = endpoint.port()};
}

CpuListeners::Packed packed_here(const ip::tcp::endpoint& endpoint) {
  CpuListeners::Packed own = packed(endpoint, random_token());
  const std::uint64_t number = network_namespace();
  std::memcpy(own.network_namespace.data(), &number, sizeof(own.network_namespace));
  return own;
}

/// Parses what publish() writes.
std::optional<CpuListeners::Packed> listener_in(std::string_view line) {
  const std::size_t host = line.find(' ');
  if (host == std::string_view::npos) return std::nullopt;
  boost::system::error_code error;
  const auto address = ip::make_address(std::string(line.substr(0, host)).c_str(), error);
  std::uint16_t port = 0;
  std::uint64_t token = 0;
  const char* const end = line.data() + line.size();
  const auto after_port = std::from_chars(line.data() + host + 1, end, port);
  if (error || after_port.ec != std::errc() || after_port.ptr == end) return std::nullopt;
  if (std::from_chars(after_port.ptr + 1, end, token).ec != std::errc()) return std::nullopt;
  return packed({address, port}, token);
}

/// Whether a rank watches rank 0, which alone knows when all have joined. If rank 0 ends before it
/// says so, watching ranks notice, and notify all. They are the ranks that exchange with rank 0
/// first, some log2(n): some of them may die together with it.
bool watches_rank_0(int rank) {
  return std::has_single_bit(static_cast<unsigned>(rank));
}

}  // namespace

CpuListeners::CpuListeners(const GroupContext& context, Known known)
    : context_(context),
      own_(io_context_, {ip::make_address(context.address), 0}),
      endpoint_(own_.local_endpoint()),
      packed_(packed_here(endpoint_)),
      known_(static_cast<std::size_t>(context.size)) {
  keep_from_children(own_.native_handle());
  known_[static_cast<std::size_t>(context_.rank)] = packed_;
  publish();
  meet(known);
  if (known == Known::all) read_table();
}

/// Publishes "ADDRESS PORT TOKEN".
void CpuListeners::publish() const {
  publish_joined(context_, endpoint_.address().to_string() + " " +
                               std::to_string(endpoint_.port()) + " " +
                               std::to_string(own().token));
}

void CpuListeners::meet(Known known) {
  std::unique_ptr<HangupWatch> watch;
  WhileWaiting waiting{.judge = [&] { return read_all(known); }};
  if (watches_rank_0(context_.rank)) {
    waiting.meet_rank_0 = [&] { watch = watch_rank_0(known); };
  }
  try {
    wait_for_all_ranks(context_, kJoined, waiting);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::mismatch) outlast_other_ranks();
    throw;
  }
}

/// Returns null if there is no descriptor or thread: then rank 0's end goes unnoticed here.
std::unique_ptr<HangupWatch> CpuListeners::watch_rank_0(Known known) {
  read({0});
  const auto tell = [this, known](int error) {
    // A group that connects later may never need a connection that a firewall refuses.
    if (known == Known::all && error != 0 && error != ECONNRESET) return;
    const std::string reason =
        error == 0 ? "its connection ended" : std::generic_category().message(error);
    try {
      tell_instead_of_rank_0(
          context_, kJoined,
          {ErrorKind::peer_lost,
           ": lost " + name_ranks({context_.named(0)}) + " while connecting: " + reason,
           {.lost = {context_.named(0)}}});
    } catch (const Error&) {
      // All ranks find that the store is gone.
    }
  };
  try {
    ddprun::Fd to_rank_0 = begin_to_connect(at(0).endpoint);
    if (!to_rank_0) {
      tell(errno);
      return nullptr;
    }
    const int socket = to_rank_0.get();
    return std::make_unique<HangupWatch>(std::move(to_rank_0),
                                         [tell, socket] { tell(error_of_socket(socket)); });
  } catch (const std::system_error&) {
  }
  return nullptr;
}

/// Called on rank 0. Returns what is wrong.
std::optional<AgreedError> CpuListeners::read_all(Known known) {
  std::vector<int> ranks(known_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::vector<std::string> lines = joined_lines(context_, ranks);
  if (auto wrong = judge_joined(lines)) return wrong;
  if (auto wrong = take(ranks, lines)) return wrong;
  if (known == Known::few) return std::nullopt;
  const std::string table(reinterpret_cast<const char*>(known_.data()),
                          known_.size() * sizeof(Packed));
  ask_store(context_, [&](Store& store) { store.set(context_.prefix + "listeners", table); });
  return std::nullopt;
}

void CpuListeners::read_table() {
  if (context_.rank == 0) return;
  std::string table;
  const std::string from = context_.prefix + "listeners";
  ask_store(context_, [&](Store& store) { table = store.get(from, context_.timeout); });
  std::vector<Packed> all(known_.size());
  if (table.size() != all.size() * sizeof(Packed)) {
    throw own_error(context_, ErrorKind::system,
                    ": " + from + " in the store is not of this program");
  }
  std::memcpy(all.data(), table.data(), table.size());
  learn(all);
}

/// Parses the lines of these ranks. Returns what is wrong.
std::optional<AgreedError> CpuListeners::take(const std::vector<int>& ranks,
                                              const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto listener = listener_in(lines[i]);
    if (!listener) {
      return AgreedError{ErrorKind::system, ": " + joined_key(context_, ranks[i]) +
                                                " in the store is not of this program"};
    }
    known_[static_cast<std::size_t>(ranks[i])] = *listener;
  }
  return std::nullopt;
}

void CpuListeners::read(const std::vector<int>& ranks) {
  std::vector<int> unknown;
  for (const int rank : ranks) {
    if (at(rank).endpoint.port() == 0) unknown.push_back(rank);
  }
  if (unknown.empty()) return;
  const std::vector<std::string> lines = joined_lines(context_, unknown);
  const std::lock_guard lock(mutex_);
  if (const auto wrong = take(unknown, lines)) {
    throw own_error(context_, wrong->kind, wrong->sentence);
  }
}

CpuListeners::Listener CpuListeners::at(int rank) const {
  const std::lock_guard lock(mutex_);
  const Packed& of = known_[static_cast<std::size_t>(rank)];
  ip::address_v6 address(of.address);
  if (address.is_v4_mapped()) {
    return {{ip::make_address_v4(ip::v4_mapped, address), of.port}, of.token};
  }
  // A link-local address has the link by which this rank reaches the others.
  const ip::address here = endpoint_.address();
  if (address.is_link_local() && here.is_v6()) address.scope_id(here.to_v6().scope_id());
  return {{address, of.port}, of.token};
}

bool CpuListeners::may_share_memory(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto& here = packed_.network_namespace;
  const auto& there = known_[static_cast<std::size_t>(rank)].network_namespace;
  const std::remove_cvref_t<decltype(here)> unknown{};
  return here == there || here == unknown || there == unknown;
}

void CpuListeners::learn(const std::vector<Packed>& all) {
  const std::lock_guard lock(mutex_);
  known_ = all;
}

/// If the store ends with this process, lets the others first read rank 0's verdict.
void CpuListeners::outlast_other_ranks() const {
  GroupContext brief = context_;
  brief.timeout = std::min(context_.timeout, std::chrono::milliseconds(5000));
  try {
    ask_store(brief, [&](Store& store) {
      store.set(context_.prefix + "leaving/" + std::to_string(context_.rank), "");
    });
    if (context_.rank_0_serves && context_.rank == 0) wait_for_all_ranks(brief, "leaving");
  } catch (const Error&) {
    // The others are late, or gone.
  }
}

void CpuListeners::release_to(ip::tcp::acceptor& acceptor) {
  acceptor.assign(endpoint_.protocol(), own_.release());
}

}  // namespace ddp::internal
