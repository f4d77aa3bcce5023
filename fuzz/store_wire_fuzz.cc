// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes from several clients of the store. Replies do not depend on how the bytes are
// cut, and the store keeps to its limit.
//
// Input: pieces, each one byte for the client (0 to 2; 3: the client of the next byte leaves), one
// byte for the length, and that many bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/target.h"
#include "tests/store/in_process_store.h"

namespace {

using ddprun::fuzz::require;
using ddprun::store::InProcessStore;
using ddprun::store::Limits;

constexpr int kClients = 3;

// Small limits, so that short inputs reach them.
Limits limits() {
  Limits limits;
  limits.wire = {64, 1024, 16, 4096};
  limits.unread_bytes = 4096;
  limits.busy_bytes = 512;
  limits.store_bytes = 8192;
  return limits;
}

/// Sends `bytes` in one piece to one store and byte by byte to the other.
void send_to_both(InProcessStore& whole, InProcessStore& cut, int client, std::string_view bytes) {
  whole.send(client, bytes);
  for (const char& byte : bytes) cut.send(client, {&byte, 1});
  for (int other = 0; other < kClients; ++other) {
    require(whole.is_in(other) == cut.is_in(other), "the same clients are connected");
    require(whole.received(other) == cut.received(other), "replies do not depend on the cuts");
  }
  require(whole.store().bytes() == cut.store().bytes(), "both stores have the same size");
  require(whole.store().bytes() <= limits().store_bytes, "the store keeps to its limit");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  InProcessStore whole(limits());
  InProcessStore cut(limits());
  for (int client = 0; client < kClients; ++client) {
    whole.enter();
    cut.enter();
  }
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() >= 2) {
    const int client = rest[0] & 3;
    const auto length = static_cast<unsigned char>(rest[1]);
    rest.remove_prefix(2);
    if (client == kClients) {
      whole.leave(length % kClients);
      cut.leave(length % kClients);
      continue;
    }
    const auto piece = rest.substr(0, length);
    rest.remove_prefix(piece.size());
    send_to_both(whole, cut, client, piece);
  }
  return 0;
}
