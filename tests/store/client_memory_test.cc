// SPDX-License-Identifier: Apache-2.0
#include "store/client_memory.h"

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace ddprun::store;

namespace {

/// Clients 0, 1, 2 ... that read nothing.
struct Readers {
  Limits limits;
  Store store{limits.store_bytes};
  std::list<Session> sessions;
  std::vector<ClientSession> all;

  Session& add() {
    const auto client = static_cast<ClientId>(all.size());
    all.push_back({client, &sessions.emplace_back(store, client, limits)});
    return sessions.back();
  }
  void add(std::size_t bytes) { add().outbox().append(std::string(bytes, 'x')); }
};

}  // namespace

TEST_CASE("clients may hold as much as the limit, and not a byte more") {
  Readers readers;
  readers.add(60);
  readers.add(40);
  CHECK(clients_beyond(readers.all, 100).empty());
  CHECK(clients_beyond(readers.all, 99) == std::vector<ClientId>{0});
}

TEST_CASE("the clients that hold most are disconnected, until three quarters are left") {
  Readers readers;
  for (const std::size_t bytes : {10, 40, 20, 31}) readers.add(bytes);
  CHECK(clients_beyond(readers.all, 100) == std::vector<ClientId>{1});
  CHECK(clients_beyond(readers.all, 80) == std::vector<ClientId>{1, 3});
}

TEST_CASE("a value counts in equal parts for the clients that hold it, unless the store has it") {
  Readers readers;
  auto value = std::make_shared<const std::string>(100'000, 'x');
  for (int i = 0; i < 2; ++i) readers.add().outbox().append(value);
  readers.add(60'000);
  CHECK(clients_beyond(readers.all, 60'000).empty());
  value.reset();
  CHECK(clients_beyond(readers.all, 160'000).empty());
  CHECK(clients_beyond(readers.all, 159'999) == std::vector<ClientId>{2});
}
