// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/boot_clock.h"
#include "base/limited_log.h"
#include "rendezvous/access/store_admission.h"
#include "rendezvous/net/boot_timer.h"
#include "store/connection_slots.h"
#include "store/owner_lookup.h"

namespace ddprun::rendezvous {

/// Holds each connection to the store, and reads nothing more from it, until it is known whether to
/// let it in. DOES what store_admission decides.
///
/// Destroying it closes the waiting connections.
/// Thread: the executor's.
class StoreAdmissionQueue {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  struct Hooks {
    /// Takes a client of the store, from which `received` was read.
    std::function<void(Socket, std::string_view received, store::ConnectionSlot)> admit;
    /// Asks the node on `line` which of these its user owns; answered() gets the answer.
    std::function<void(ConnectionId line, const std::vector<SocketEnds>&)> ask;
  };

  /// A node whose line is lost may be back within `return_limit`.
  StoreAdmissionQueue(boost::asio::any_io_executor executor, StoreAccess access,
                      BootClock::duration return_limit, Hooks hooks);

  /// Whether `socket`, which was just accepted, is another user's, so that nothing needs to be read
  /// from it. True only if that is known at once without asking a node.
  bool turns_away(Socket& socket);

  /// Takes a client that was not turned away, and has sent `received`.
  void arrived(Socket socket, std::string_view received, store::ConnectionSlot slot);

  /// These do the same as in StoreAdmission.
  void line_opened(ConnectionId line, std::string address, const std::vector<std::string>& others);
  void line_closed(ConnectionId line);
  void answered(ConnectionId line, const std::vector<bool>& ours);

  /// Closes the waiting connections: a new round has its own clients.
  void clear();

 private:
  struct Visitor {
    Socket socket;
    SocketEnds ends;
    store::ConnectionSlot slot;
    std::string received;
  };

  void judge(StoreAdmission::Number number, const SocketOwner& owner);
  void perform(const StoreAdmission::Actions& actions);
  void perform(const StoreAdmission::Admit& admit);
  void perform(const StoreAdmission::Refuse& refuse);
  void perform(const StoreAdmission::Ask& ask) { hooks_.ask(ask.line, ask.connections); }
  void log_refusal(const SocketEnds& ends, const SocketOwner& owner);

  const StoreAccess access_;
  Hooks hooks_;
  StoreAdmission admission_;
  std::unordered_map<StoreAdmission::Number, Visitor> visitors_;
  StoreAdmission::Number last_ = 0;
  store::OwnerLookup owners_;
  bool is_undecided_ = false;  // once, the kernel did not say at once who owned a connection
  BootTimer timer_;
  log::LimitedLog log_;
};

}  // namespace ddprun::rendezvous
