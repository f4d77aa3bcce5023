// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <boost/asio/any_io_executor.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "rendezvous/secret/secure_channel.h"
#include "store/connection_slots.h"

namespace ddprun::rendezvous {

/// Connections that wait for their handshake. DECIDES whose is next: one of each address in turn,
/// so that one host, such as a stranger who begins thousands, does not hold up the others.
class HandshakeQueue {
 public:
  using Number = std::uint64_t;  ///< of a connection

  void add(store::SourceNetwork source, Number number);

  /// Takes the next one out; nullopt: there is none.
  std::optional<Number> next();

  bool is_empty() const { return turns_.empty(); }

 private:
  std::unordered_map<store::SourceNetwork, std::deque<Number>> waiting_;
  std::deque<store::SourceNetwork> turns_;  // sources with connections, the next one first
};

/// Threads that compute a master's answers to agents' first records. An answer takes longer than
/// all else that the master does for an agent, and thousands may be asked for at once. The threads
/// start with the first record.
///
/// Destroying it waits for the few answers that are being computed, as nothing may use OpenSSL when
/// the process ends, and drops them.
/// Thread: the executor's.
class HandshakeThreads {
 public:
  struct Answer {
    std::unique_ptr<SecureChannel> channel;
    Result<> received;   ///< of SecureChannel::receive
    std::string output;  ///< to send to the agent
  };
  using Done = std::function<void(Answer)>;

  explicit HandshakeThreads(boost::asio::any_io_executor executor);
  ~HandshakeThreads();
  HandshakeThreads(const HandshakeThreads&) = delete;

  /// Whether the next answer would be begun soon.
  bool has_room() const { return under_way_ < lanes_ * kQueued; }

  /// Computes the answer to `record`; `done` gets it from the executor.
  void compute(std::shared_ptr<const Security> security, std::string record, Done done);

 private:
  /// Jobs of one thread, which runs them in their order.
  struct Lane {
    explicit Lane(const boost::asio::any_io_executor& executor) : jobs(executor) {}
    AsyncJobs jobs;
    std::size_t under_way = 0;
  };

  /// Enough that a thread has work while the event loop is busy for a millisecond or two.
  static constexpr std::size_t kQueued = 16;

  Lane& next_lane();

  boost::asio::any_io_executor executor_;
  const std::size_t lanes_;
  std::list<Lane> lane_list_;
  std::size_t under_way_ = 0;
  bool closing_ = false;
};

}  // namespace ddprun::rendezvous
