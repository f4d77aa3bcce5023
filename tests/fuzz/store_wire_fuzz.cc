// SPDX-License-Identifier: Apache-2.0
// Bytes of several clients against the store: nothing they send may break it, and how their bytes
// were cut must not show in the replies.
//
// An input is a row of pieces: a byte that names the client (0 to 2; 3: the next byte names one
// that leaves), a length byte, and that many bytes.
//
//   cmake --preset ... -DDDPRUN_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++
//   tests/fuzz/make_corpus.py CORPUS && bin/store_wire_fuzz CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/store/in_process_store.h"

namespace {

using ddprun::store::InProcessStore;
using ddprun::store::Limits;

constexpr int kClients = 3;

// Small, so that short inputs reach them.
Limits limits() {
  Limits limits;
  limits.wire = {64, 1024, 16, 4096};
  limits.unread_bytes = 4096;
  limits.busy_bytes = 512;
  limits.store_bytes = 8192;
  return limits;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// Sends `bytes` in one piece to one store and byte by byte to the other.
void send_to_both(InProcessStore& whole, InProcessStore& cut, int client, std::string_view bytes) {
  whole.send(client, bytes);
  for (const char& byte : bytes) cut.send(client, {&byte, 1});
  for (int other = 0; other < kClients; ++other) {
    require(whole.is_in(other) == cut.is_in(other), "the same clients are connected");
    require(whole.received(other) == cut.received(other), "replies do not show the cuts");
  }
  require(whole.store().bytes() == cut.store().bytes(), "the stores cost the same");
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
