// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/init.h"

#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>

#include "base/fd.h"
#include "collectives/errors.h"
#include "collectives/stores/store_host.h"
#include "ddp/file_store.h"
#include "ddp/tcp_store.h"

namespace ddp::internal {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + what);
}

std::optional<int> number(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = problem == std::errc() && end == text.data() + text.size();
  return whole && value >= low && value <= high ? std::optional(value) : std::nullopt;
}

/// "rank=0&world_size=4".
void parse_query(std::string_view query, const std::string& text, InitMethod& method) {
  constexpr int kMost = 1 << 20;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    const std::string_view name = field.substr(0, field.find('='));
    const auto value = number(field.substr(std::min(field.size(), name.size() + 1)),
                              name == "rank" ? 0 : 1, kMost);
    if (name != "rank" && name != "world_size") {
      refuse("init_method " + text + ": " + std::string(name) + " is neither rank nor world_size");
    }
    if (!value) refuse("init_method " + text + ": " + std::string(field) + " is no such number");
    (name == "rank" ? method.rank : method.world_size) = value;
  }
}

void parse_endpoint(std::string_view endpoint, const std::string& text, InitMethod& method) {
  const std::size_t colon = endpoint.rfind(':');
  std::optional<int> port;
  if (colon != std::string_view::npos) port = number(endpoint.substr(colon + 1), 1, 65535);
  std::string_view host = endpoint.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || !port) refuse("init_method " + text + " is not tcp://HOST:PORT");
  method.host = host;
  method.port = static_cast<std::uint16_t>(*port);
}

/// The place that was given, or the launcher's.
RankInfo find_place(const Options& options, const InitMethod& method) {
  const auto rank = options.rank ? options.rank : method.rank;
  const auto size = options.world_size ? options.world_size : method.world_size;
  if (!rank && !size) return read_place();
  if (!rank || !size) {
    refuse(std::string(rank ? "rank" : "world_size") + " is given without " +
           (rank ? "world_size" : "rank"));
  }
  if (*size < 1) refuse("world_size " + std::to_string(*size) + " is not above 0");
  if (*rank < 0 || *rank >= *size) {
    refuse("rank " + std::to_string(*rank) + " is not from 0 to " + std::to_string(*size - 1));
  }
  return {*rank, *size};
}

/// The address from which this host reaches others: that of its default route. Nothing is sent.
std::string address_of_host() {
  const ddprun::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &other.sin_addr);  // for documentation: nobody's (RFC 5737)
  sockaddr_in own{};
  socklen_t size = sizeof(own);
  std::array<char, INET_ADDRSTRLEN> text{};
  const bool found =
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&other), sizeof(other)) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      ::inet_ntop(AF_INET, &own.sin_addr, text.data(), text.size()) != nullptr;
  return found ? text.data() : "127.0.0.1";
}

std::string address_towards(const std::shared_ptr<Store>& store) {
  if (const auto tcp = std::dynamic_pointer_cast<TcpStore>(store)) return tcp->local_address();
  if (const auto prefix = std::dynamic_pointer_cast<PrefixStore>(store)) {
    return address_towards(prefix->underlying());
  }
  if (std::dynamic_pointer_cast<HashStore>(store)) return "127.0.0.1";
  return address_of_host();
}

/// This process opens a file once, for as many groups as there are, and leaves it when it ends: the
/// others may still be in the first group when it joins the next.
std::shared_ptr<Store> file_of_process(const std::string& path, int world_size,
                                       std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Store>> files;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Store>& file = files[path];
  if (!file) {
    file = std::make_shared<FileStore>(
        path, FileStoreOptions{.world_size = world_size, .timeout = timeout});
  }
  return file;
}

/// The store of the method; rank 0 serves it where nobody does.
std::shared_ptr<Store> make_store(const InitMethod& method, std::chrono::milliseconds timeout,
                                  Rendezvous& found) {
  if (method.scheme == InitMethod::Scheme::file) {
    return file_of_process(method.path, found.place.size, timeout);
  }
  const StoreAddress address = method.scheme == InitMethod::Scheme::tcp
                                   ? StoreAddress{method.host, method.port, false}
                                   : read_store_address();
  found.rank_0_serves = !address.agent;
  if (found.rank_0_serves && found.place.rank == 0) host_store(address.host, address.port);
  return std::make_shared<TcpStore>(address.host, address.port,
                                    TcpStoreOptions{.timeout = timeout});
}

}  // namespace

InitMethod parse_init_method(const std::string& text) {
  const std::size_t question = text.find('?');
  const std::string_view place = std::string_view(text).substr(0, question);
  InitMethod method;
  if (question != std::string::npos) {
    parse_query(std::string_view(text).substr(question + 1), text, method);
  }
  if (place == "env://") return method;
  if (place.starts_with("tcp://")) {
    method.scheme = InitMethod::Scheme::tcp;
    parse_endpoint(place.substr(6), text, method);
    return method;
  }
  if (place.starts_with("file:///") && place.size() > 8) {
    method.scheme = InitMethod::Scheme::file;
    method.path = place.substr(7);
    return method;
  }
  refuse("init_method " + text + " is none of env://, tcp://HOST:PORT and file:///PATH");
}

void check_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) {
    refuse("the timeout must be more than 0, not " + name_time(timeout));
  }
}

Rendezvous rendezvous(const Options& options, std::chrono::milliseconds timeout) {
  const InitMethod method = parse_init_method(options.init_method);
  Rendezvous found;
  found.place = find_place(options, method);
  const int rank = found.place.rank;
  if (found.place.size == 1) return found;
  at_rank(rank, [&] {
    found.store = options.store ? options.store : make_store(method, timeout, found);
    found.address = address_towards(found.store);
    // The n-th group that this rank joins through this store: the same number on every rank.
    const auto groups = found.store->add("ddp/groups/" + std::to_string(rank), 1);
    found.prefix = "ddp/" + std::to_string(groups - 1) + "/";
  });
  return found;
}

}  // namespace ddp::internal
