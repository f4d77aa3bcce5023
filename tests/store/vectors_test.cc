// SPDX-License-Identifier: Apache-2.0
// What unmodified PyTorch clients were seen to send, and what they were answered.
#include "tests/store/vectors.h"

#include "tests/catch.h"
#include "tests/store/bytes.h"
#include "tests/store/room.h"

using namespace ddprun::store;
using namespace ddprun::store::bytes;

namespace {

void play_whole(const std::vector<Exchange>& conversation) {
  StoreRoom room;
  const int client = room.enter();
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    INFO("exchange " << i);
    REQUIRE(room.send(client, conversation[i].request));
    REQUIRE(room.received(client) == conversation[i].reply);
  }
}

void play_byte_by_byte(const std::vector<Exchange>& conversation) {
  StoreRoom room;
  const int client = room.enter();
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    INFO("exchange " << i);
    for (const char byte : conversation[i].request) {
      REQUIRE(room.received(client).empty() == true);
      REQUIRE(room.send(client, {&byte, 1}));
    }
    REQUIRE(room.received(client) == conversation[i].reply);
  }
}

void play_in_pieces_of(std::size_t size, const std::vector<Exchange>& conversation) {
  INFO("pieces of " << size);
  std::string requests, replies;
  for (const auto& exchange : conversation) {
    requests += exchange.request;
    replies += exchange.reply;
  }
  StoreRoom room;
  const int client = room.enter();
  for (std::size_t at = 0; at < requests.size(); at += size) {
    REQUIRE(room.send(client, std::string_view(requests).substr(at, size)));
  }
  CHECK(room.received(client) == replies);
}

void play_every_way(const std::vector<Exchange>& conversation) {
  play_whole(conversation);
  play_byte_by_byte(conversation);
  for (const std::size_t size : {1, 2, 3, 7, 13, 64, 1440}) play_in_pieces_of(size, conversation);
  play_in_pieces_of(1 << 20, conversation);
}

/// N45 and its reply: of two, both are told when the second has come.
void play_barrier(StoreVectors& vectors, bool byte_by_byte) {
  StoreRoom room;
  const int first = room.enter();
  const int second = room.enter();
  const auto send = [&](int client, const std::string& request) {
    for (std::size_t i = 0; i < request.size(); i += byte_by_byte ? 1 : request.size()) {
      REQUIRE(room.send(client, request.substr(i, byte_by_byte ? 1 : request.size())));
    }
  };
  send(first, kHello + vectors["N45"]);
  send(second, kHello);
  CHECK(room.received(first) == "");
  send(second, vectors["N45"]);
  CHECK(room.received(first) == vectors["N45r"]);
  CHECK(room.received(second) == vectors["N45r"]);
}

/// O40 to O43: one client watches what another does.
void play_watch(StoreVectors& vectors) {
  const std::string set_one = hex("0002000000000000002f77010000000000000031");
  const std::string set_22 = hex("0002000000000000002f7702000000000000003232");
  const std::string remove = hex("0802000000000000002f77");
  StoreRoom room;
  const int watching = room.enter();
  const int changing = room.enter();

  for (const char byte : vectors["O40"]) room.send(watching, {&byte, 1});
  CHECK(room.received(watching) == vectors["O40r"]);
  room.send(changing, set_one);
  CHECK(room.received(watching) == vectors["O41r"]);
  room.send(changing, set_22);
  CHECK(room.received(watching) == vectors["O42r"]);
  room.send(changing, remove);
  CHECK(room.received(watching) == vectors["O43r"]);
  CHECK(room.received(changing) == integer(1));
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
