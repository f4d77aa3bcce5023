// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/session.h"

namespace ddprun::store {

/// A store and its clients without sockets. Requests run at once, and events go to the other
/// clients as the server would send them. Clients are numbered from 0.
class InProcessStore {
 public:
  explicit InProcessStore(Limits limits = {}) : limits_(limits), store_(limits.store_bytes) {}

  /// All clients must enter before the first byte: a session does not move.
  int enter() {
    clients_.emplace_back(store_, clients_.size(), limits_);
    return static_cast<int>(clients_.size()) - 1;
  }

  /// False: the client is disconnected.
  bool send(int client, std::string_view bytes) {
    Client& sender = clients_[client];
    if (!sender.session) return false;
    sender.session->feed(bytes);
    Session::Step step;
    do {
      step = sender.session->step();
      pass_on_events();
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

  /// The client stops taking replies out of its outbox.
  void stop_reading(int client) { clients_[client].reads = false; }

  /// The client reads again: the replies that are left, and those of requests that waited.
  std::string read_on(int client) {
    Client& reader = clients_[client];
    reader.reads = true;
    Session::Step step;
    do {
      collect(reader);
      step = reader.session->step();
      pass_on_events();
    } while (step != Session::Step::idle);
    return received(client);
  }

  /// All bytes sent to the client since the last call.
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

  void pass_on_events() {
    for (const ClientId id : store_.take_woken()) {
      clients_[id].session->wake();
      if (clients_[id].reads) collect(clients_[id]);
    }
    for (const WatchEvent& event : store_.take_changes()) {
      Client& client = clients_[event.client];
      if (!client.session) continue;
      const bool fits = client.session->send_change(event);
      if (client.reads) collect(client);
      if (!fits) client.session.reset();
    }
  }

  Limits limits_;
  Store store_;
  std::deque<Client> clients_;
};

}  // namespace ddprun::store
