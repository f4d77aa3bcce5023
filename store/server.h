// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <sys/epoll.h>
#include <unordered_map>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/fd.h"
#include "base/limited_log.h"
#include "store/connection_slots.h"
#include "store/session.h"
#include "store/store.h"

namespace ddprun::store {

/// Serves a store over TCP to workers: c10d's TCPStore protocol, as many clients as there are
/// descriptors; nothing blocks. A client that stalls, misbehaves or vanishes harms only itself: it
/// is disconnected, with a warning if it ever sent a valid request.
///
/// Its sockets have an epoll set of their own, which is one descriptor for the io_context. One
/// wake-up serves all that are ready, and an idle client has no buffer. It never works for longer
/// than Limits::turn, and one request, before the rest of the process gets its turn.
///
/// The destructor closes every connection. Thread: the executor's, which must be a single one.
class Server {
 public:
  /// Throws boost::system::system_error if no descriptor is left, as an io_context does.
  explicit Server(boost::asio::any_io_executor executor, Limits limits = {});
  ~Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves a client whose bytes `received` were read already (the port is shared: the first bytes
  /// identify the protocol). It may be empty: old releases of PyTorch keep a second, silent
  /// connection. Closes the socket if it cannot serve it. Reports the first request to `slot`.
  void adopt(boost::asio::ip::tcp::socket socket, std::string_view received,
             ConnectionSlot slot = {});

  /// The same with any stream socket.
  void adopt(Fd socket, std::string_view received, ConnectionSlot slot = {});

  /// Calls Store::notify_failure for clients of this round.
  void notify_failure(std::string_view sentence);

  /// Begins a new round: closes every connection and forgets every key.
  void reset();

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    Client(Store& store, ClientId client_id, const Limits& limits, Fd client_socket)
        : id(client_id), socket(std::move(client_socket)), session(store, client_id, limits) {}

    ClientId id;
    Fd socket;
    Session session;
    ConnectionSlot slot;
    std::uint32_t events = 0;      // the events that the epoll set reports
    bool silent = true;            // has not sent a byte
    bool busy = false;             // its next request waits until it has read the replies
    bool send_overflowed = false;  // it has too many unread changes
    bool has_read = false;         // some of its replies, since the last check
    int checks_unread = 0;         // checks in a row without reading
    std::size_t memory = 0;        // as counted last
  };
  using Clients = std::unordered_map<ClientId, Client>;

  Client* find(ClientId id);
  void wait_for_clients();
  void serve_turn();
  bool serve_ready();
  bool look_for_requests(int more);
  bool turn_is_over() const { return Clock::now() >= turn_end_; }
  void serve(Client& client, std::uint32_t events);
  void read(Client& client);
  void on_bytes(Client& client, std::string_view bytes);
  void advance(Client& client);
  Session::Step run_requests(Client& client);
  void take_events(const Client* from);
  void send_events();
  bool send(Client& client);
  bool update_epoll(Client& client);
  void count_memory(Client& client);
  void bound_memory();
  void check_readers_later();
  void check_readers();
  void drop(Client& client, std::string_view reason);

  const Limits limits_;
  Store store_;
  ClientId next_id_ = 1;
  Clients clients_;
  std::size_t silent_ = 0;   // number of silent clients
  std::size_t memory_ = 0;   // of all clients; a value counts once for each client that holds it
  std::size_t look_at_ = 0;  // memory_ at which its true value is computed
  std::vector<ClientId> notified_;  // another client's request has given them something to send
  bool replied_ = false;            // to any client, since the last look for requests

  std::unique_ptr<char[]> buffer_;     // shared: the bytes of a read are processed at once
  std::array<epoll_event, 64> ready_;  // those before next_ are served
  std::size_t next_ = 0;
  std::size_t ready_count_ = 0;
  Clock::time_point turn_end_;
  boost::asio::posix::stream_descriptor epoll_;
  boost::asio::steady_timer reader_check_;
  bool checks_readers_ = false;
  log::LimitedLog log_;
  // Handlers check it first: one may be queued already when the server is destroyed.
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace ddprun::store
