// SPDX-License-Identifier: Apache-2.0
// Recorded requests of unmodified PyTorch clients, and the answers to them.
#include "tests/store/vectors.h"

#include "tests/catch.h"
#include "tests/store/bytes.h"
#include "tests/store/in_process_store.h"

using namespace ddprun::store;
using namespace ddprun::store::bytes;

namespace {

void play_whole(const std::vector<Exchange>& conversation) {
  InProcessStore store;
  const int client = store.enter();
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    INFO("exchange " << i);
    REQUIRE(store.send(client, conversation[i].request));
    REQUIRE(store.received(client) == conversation[i].reply);
  }
}

void play_byte_by_byte(const std::vector<Exchange>& conversation) {
  InProcessStore store;
  const int client = store.enter();
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    INFO("exchange " << i);
    for (const char byte : conversation[i].request) {
      REQUIRE(store.received(client).empty() == true);
      REQUIRE(store.send(client, {&byte, 1}));
    }
    REQUIRE(store.received(client) == conversation[i].reply);
  }
}

void play_in_pieces_of(std::size_t size, const std::vector<Exchange>& conversation) {
  INFO("pieces of " << size);
  std::string requests, replies;
  for (const auto& exchange : conversation) {
    requests += exchange.request;
    replies += exchange.reply;
  }
  InProcessStore store;
  const int client = store.enter();
  for (std::size_t at = 0; at < requests.size(); at += size) {
    REQUIRE(store.send(client, std::string_view(requests).substr(at, size)));
  }
  CHECK(store.received(client) == replies);
}

void play_every_way(const std::vector<Exchange>& conversation) {
  play_whole(conversation);
  play_byte_by_byte(conversation);
  for (const std::size_t size : {1, 2, 3, 7, 13, 64, 1440}) play_in_pieces_of(size, conversation);
  play_in_pieces_of(1 << 20, conversation);
}

/// N45 and its reply: a barrier of two clients releases both when the second has come.
void play_barrier(StoreVectors& vectors, bool byte_by_byte) {
  InProcessStore store;
  const int first = store.enter();
  const int second = store.enter();
  const auto send = [&](int client, const std::string& request) {
    for (std::size_t i = 0; i < request.size(); i += byte_by_byte ? 1 : request.size()) {
      REQUIRE(store.send(client, request.substr(i, byte_by_byte ? 1 : request.size())));
    }
  };
  send(first, kHello + vectors["N45"]);
  send(second, kHello);
  CHECK(store.received(first) == "");
  send(second, vectors["N45"]);
  CHECK(store.received(first) == vectors["N45r"]);
  CHECK(store.received(second) == vectors["N45r"]);
}

/// O40 to O43: one client watches the changes of another.
void play_watch(StoreVectors& vectors) {
  const std::string set_one = hex("0002000000000000002f77010000000000000031");
  const std::string set_22 = hex("0002000000000000002f7702000000000000003232");
  const std::string remove = hex("0802000000000000002f77");
  InProcessStore store;
  const int watching = store.enter();
  const int changing = store.enter();

  for (const char byte : vectors["O40"]) store.send(watching, {&byte, 1});
  CHECK(store.received(watching) == vectors["O40r"]);
  store.send(changing, set_one);
  CHECK(store.received(watching) == vectors["O41r"]);
  store.send(changing, set_22);
  CHECK(store.received(watching) == vectors["O42r"]);
  store.send(changing, remove);
  CHECK(store.received(watching) == vectors["O43r"]);
  CHECK(store.received(changing) == integer(1));
}

}  // namespace

TEST_CASE("recorded clients get recorded replies, however their bytes are cut") {
  StoreVectors vectors;
  REQUIRE(vectors.size() == 90);

  play_every_way(current_conversation(vectors));
  play_every_way(legacy_conversation(vectors));
  play_every_way({{kHello + set("/bb", ""), ""}, {vectors["N44"], vectors["N44r"]}});
  play_barrier(vectors, false);
  play_barrier(vectors, true);
  play_watch(vectors);

  CHECK(vectors.unused() == std::vector<std::string>{});
}
