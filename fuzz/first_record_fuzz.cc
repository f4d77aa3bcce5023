// SPDX-License-Identifier: Apache-2.0
// The first bytes that a master, or an agent, of a job with a secret gets. A peer that does not
// know it proves nothing, gets a bounded answer, and is read no further than a bound, however its
// bytes are cut.
//
// Input: one byte, the size of a piece less one, then the stream. Some begin as an agent's do.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/feed.h"
#include "fuzz/target.h"
#include "rendezvous/secret/secure_channel.h"

namespace {

using ddprun::Secret;
using ddprun::fuzz::require;
using ddprun::rendezvous::SecureChannel;
using ddprun::rendezvous::Security;

constexpr std::size_t kMostTaken = 5 * 1024;
constexpr std::size_t kMostAnswered = 1024;

const std::shared_ptr<const Security>& security() {
  static const auto made = Security::of_job(Secret(std::string(32, 's')), "job");
  require(made.has_value(), "OpenSSL is installed");
  return *made;
}

/// One end, and a stranger at the other.
void meet(SecureChannel::Role role, std::string_view bytes, std::size_t piece) {
  SecureChannel end(security(), role);
  end.send("known to the job alone");
  std::size_t taken = 0;
  std::size_t answered = end.take_output().size();
  for (const std::string_view each : ddprun::fuzz::pieces_of(bytes, piece)) {
    const bool goes_on = end.receive(each).has_value();
    taken += piece;
    const std::string output = end.take_output();
    require(output.find("known") == std::string::npos, "a stranger is told nothing");
    answered += output.size();
    if (!goes_on) break;
  }
  require(!end.is_proven() && end.take_received().empty(), "a stranger proves nothing");
  require(taken <= kMostTaken && answered <= kMostAnswered, "a stranger's part is bounded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = std::size_t{1} + data[0];

  meet(SecureChannel::Role::master, bytes, piece);
  meet(SecureChannel::Role::agent, bytes, piece);
  return 0;
}
