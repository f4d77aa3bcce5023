// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "store/wire.h"

namespace ddprun::bench {

/// Raw clients of a store on this host, all in one thread. They send the same bytes as PyTorch's
/// own client, without its overhead. A failed system call or a lost connection ends the program.
class StoreLoad {
 public:
  /// Connects `count` clients, each until its first reply.
  StoreLoad(std::uint16_t port, store::Dialect dialect, int count, bool by_ipv4 = false);

  /// The seconds that it took to connect all.
  double connect_seconds() const { return connect_seconds_; }

  /// Each client sets a key of its own `each` times; a last request shows that all have arrived.
  /// Returns seconds, like all below.
  double set(int each);
  double get(int each);  // each is a wait and a get
  double add(int each);

  /// Sets `keys` keys in all, each a different one.
  void fill(int keys);

  /// Waits until the server has closed every connection.
  void wait_for_end();

  /// All clients add to a counter; the last one sets a key that all wait for.
  double barrier();

 private:
  struct Client {
    Fd socket;
    std::string unsent;
    std::size_t missing = 0;  // bytes of the reply
    std::string reply;
    int step = 0;
  };
  struct Exchange {
    std::string request;
    std::size_t reply = 0;
  };
  /// The request of client `i` at `step`; nullopt: the client is done.
  using Script = std::function<std::optional<Exchange>(std::size_t i, int step)>;

  double run(const Script& script);
  bool advance(std::size_t i, const Script& script);
  bool flush(std::size_t i);
  void receive(std::size_t i);
  void connect_one(std::uint16_t port, bool by_ipv4);

  std::string type(store::RequestType request) const;
  std::string key_request(store::RequestType request, const std::string& key) const;
  std::string set_request(const std::string& key, const std::string& value) const;
  std::string add_request(const std::string& key) const;
  std::string wait_request(const std::string& key) const;

  bool legacy_;
  Fd epoll_;
  std::vector<Client> clients_;
  std::deque<std::size_t> ready_;
  double connect_seconds_ = 0;
};

}  // namespace ddprun::bench
