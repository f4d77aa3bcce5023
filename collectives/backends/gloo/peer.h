// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/gloo/connections.h"
#include "collectives/backends/gloo/frame.h"
#include "collectives/backends/gloo/message.h"

namespace ddp::internal {

/// The messages between this rank and one other. Each rank announces what it sends on a connection
/// of its own. Short data goes along, and waits at the receiver for a receive if there is none yet;
/// what waits there is bounded by a credit of the sender's. Any other data is sent when the
/// receiver says go, straight to where it belongs.
///
/// A message goes to the receive of the same tag, the first to the first: tags do not wait for each
/// other, and a receive never waits for what was sent after its message.
///
/// Everything under the lock of `enter`.
class GlooPeer {
 public:
  struct Events {
    std::function<void(MessageAt message)> done;

    /// What the other sends, described as we describe our own, does not fit.
    std::function<void(MessageAt message, const std::string& theirs)> differs;

    /// The other is gone: whatever is open with it has failed.
    std::function<void(const std::string& reason)> lost;

    /// The other sends more than is held for it; `tag` is the last one's.
    std::function<void(std::size_t held, std::int32_t tag)> overrun;
  };

  /// `to` is where the other listens, `first` what it is told first; `me` is this rank, as messages
  /// name it.
  GlooPeer(boost::asio::io_context& context, const Enter& enter, boost::asio::ip::tcp::endpoint to,
           const Frame& first, int me, Events events);

  void begin(MessageAt message);

  /// Tells the other, if it ever asked, that we wait for nothing more.
  void say_bye();

  /// What came, as RecvConnection says it.
  void come();  ///< it connected
  bool heard(const Frame& frame, const char* data);
  std::optional<char*> place(std::uint64_t number, std::size_t bytes);
  void came(std::uint64_t number, std::size_t bytes);
  void ended(const std::string& reason);

  /// "has sent tag 5": what nobody receives here.
  std::string unreceived() const;

  void close() noexcept { outlet_.close(); }

 private:
  /// A message that nobody has yet called to receive.
  struct Arrival {
    Frame frame;
    std::vector<char> data;
  };

  void open();
  void send(MessageAt message);
  void receive(MessageAt message);
  void match(MessageAt message, const Frame& frame, const char* data);
  bool announced(const Frame& frame, const char* data);
  bool go(std::uint64_t number);
  void give_back(std::size_t credit);
  void end_waiting();

  boost::asio::ip::tcp::endpoint to_;
  Frame first_;
  int me_;
  Events events_;
  SendConnection outlet_;
  bool known_ = false;     // it has connected to us
  bool said_bye_ = false;  // we have
  bool parted_ = false;    // the other has
  std::optional<std::string> lost_;

  std::uint64_t sent_ = 0;                        // messages in all
  std::size_t credit_;                            // for short messages to it
  std::map<std::uint64_t, MessageAt> announced_;  // ours that wait for its go

  std::uint64_t heard_ = 0;  // messages in all
  // By tag, the first first; of one tag there are never both.
  std::multimap<std::int32_t, Arrival> arrivals_;
  std::multimap<std::int32_t, MessageAt> receives_;
  std::size_t held_ = 0;                       // credit of the arrivals
  std::size_t taken_ = 0;                      // credit to be given back
  std::map<std::uint64_t, MessageAt> coming_;  // its messages that have our go
};

}  // namespace ddp::internal
