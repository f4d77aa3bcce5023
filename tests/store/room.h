// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/session.h"

namespace ddprun::store {

/// A store and its clients without sockets: what a client sends runs at once, and the news go round
/// as the server would bring them. Clients are numbered from 0.
class StoreRoom {
 public:
  explicit StoreRoom(Limits limits = {}) : limits_(limits), store_(limits.store_bytes) {}

  /// Everybody has to be in before the first byte: a session does not move.
  int enter() {
    clients_.emplace_back(store_, clients_.size(), limits_);
    return static_cast<int>(clients_.size()) - 1;
  }

  /// False once the client is disconnected.
  bool send(int client, std::string_view bytes) {
    Client& sender = clients_[client];
    if (!sender.session) return false;
    sender.session->feed(bytes);
    Session::Step step;
    do {
      step = sender.session->step();
      bring_news();
      if (!sender.session) return false;
      if (sender.reads || step == Session::Step::broken) collect(sender);
    } while (step == Session::Step::ran || (step == Session::Step::busy && sender.reads));
    if (step == Session::Step::broken) {
      sender.last_error = sender.session->error().message;
      sender.session.reset();
    }
    return sender.session.has_value();
  }

  void leave(int client) { clients_[client].session.reset(); }
  bool is_in(int client) const { return clients_[client].session.has_value(); }

  /// Stops taking replies out of its outbox.
  void stop_reading(int client) { clients_[client].reads = false; }

  /// All that the client was sent since the last call.
  std::string received(int client) { return std::exchange(clients_[client].inbox, {}); }
  const std::string& why(int client) const { return clients_[client].last_error; }

  Session& session(int client) { return *clients_[client].session; }
  Store& store() { return store_; }

 private:
  struct Client {
    Client(Store& store, ClientId id, const Limits& limits) { session.emplace(store, id, limits); }
    std::optional<Session> session;
    std::string inbox;
    std::string last_error;
    bool reads = true;
  };

  static void collect(Client& client) {
    Outbox& outbox = client.session->outbox();
    std::string_view piece;
    while (outbox.pieces(&piece, 1) == 1 && !outbox.empty()) {
      client.inbox += piece;
      outbox.drop(piece.size());
    }
  }

  void bring_news() {
    for (const ClientId id : store_.take_woken()) {
      clients_[id].session->wake();
      if (clients_[id].reads) collect(clients_[id]);
    }
    for (const WatchEvent& event : store_.take_changes()) {
      Client& client = clients_[event.client];
      if (!client.session) continue;
      const bool told = client.session->tell(event);
      if (client.reads) collect(client);
      if (!told) client.session.reset();
    }
  }

  Limits limits_;
  Store store_;
  std::deque<Client> clients_;
};

}  // namespace ddprun::store
