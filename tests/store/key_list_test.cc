// SPDX-License-Identifier: Apache-2.0

#include <memory>

#include "store/store.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::store;

namespace {

std::string take(Listing& listing, std::size_t most = 1'000'000) {
  std::string keys;
  for (; most > 0 && listing.left() > 0; --most) keys.append(listing.next()).append(" ");
  return keys;
}

struct Filled {
  Store store{1 << 30};

  Filled(std::initializer_list<const char*> keys) {
    for (const char* key : keys) must(store.set(key, ""));
  }
};

}  // namespace

TEST_CASE("a listing has the keys of its beginning, in the order of their creation") {
  Filled filled({"a", "b", "c"});
  Store& store = filled.store;
  Listing listing(store.key_list(), store.key_count());
  must(store.set("d", ""));
  CHECK(take(listing) == "a b c ");
}

TEST_CASE("keys that are removed while they are listed are listed once") {
  Filled filled({"a", "b", "c", "d", "e"});
  Store& store = filled.store;
  Listing listing(store.key_list(), store.key_count());
  CHECK(take(listing, 2) == "a b ");
  store.remove("a");  // already listed
  store.remove("c");  // next
  store.remove("e");
  must(store.set("c", "again"));
  store.remove("c");
  CHECK(listing.left() == 3);
  CHECK(take(listing) == "c e d ");
  must(store.set("f", ""));
  store.remove("f");
  store.remove("d");
  CHECK(listing.left() == 0);
}

TEST_CASE("all keys may be removed at once while they are listed") {
  Filled filled({"a", "b", "c"});
  Store& store = filled.store;
  Listing listing(store.key_list(), store.key_count());
  for (const char* key : {"a", "b", "c"}) store.remove(key);
  must(store.set("d", ""));
  CHECK(take(listing) == "a b c ");
}

TEST_CASE("a listing that would hold too much is revoked") {
  Store store(1 << 30);
  const auto key = [](int i) { return std::string(1000, 'k') + std::to_string(i); };
  for (int i = 0; i < 2000; ++i) must(store.set(key(i), ""));
  Listing slow(store.key_list(), store.key_count());
  for (int i = 0; i < 1000; ++i) store.remove(key(i));
  CHECK_FALSE(slow.revoked());
  for (int i = 1000; i < 2000; ++i) store.remove(key(i));
  CHECK(slow.revoked());
}

TEST_CASE("one listing too many revokes the oldest") {
  Filled filled({"a"});
  std::vector<std::unique_ptr<Listing>> listings;
  for (std::size_t i = 0; i < Listing::kMost + 1; ++i) {
    listings.push_back(
        std::make_unique<Listing>(filled.store.key_list(), filled.store.key_count()));
  }
  CHECK(listings[0]->revoked());
  CHECK_FALSE(listings[1]->revoked());
  CHECK(take(*listings.back()) == "a ");
}
