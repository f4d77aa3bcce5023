// SPDX-License-Identifier: Apache-2.0
// The behaviour of every kind of store.

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ddp/file_store.h"
#include "ddp/store.h"
#include "ddp/tcp_store.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/error_of.h"
#include "tests/contains.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using Keys = std::vector<std::string>;

namespace {

/// One store as two of its users see it.
struct Stores {
  std::shared_ptr<void> server;  ///< empty if it needs none
  std::shared_ptr<ddp::Store> a;
  std::shared_ptr<ddp::Store> b;
};

Stores hash_stores() {
  const auto store = std::make_shared<ddp::HashStore>();
  return {nullptr, store, store};
}

Stores clients_of_the_launcher() {
  const auto live = std::make_shared<LiveStore>();
  const auto client = [&] { return std::make_shared<ddp::TcpStore>("127.0.0.1", live->port()); };
  return {live, client(), client()};
}

Stores master_and_client() {
  const auto master =
      std::make_shared<ddp::TcpStore>("localhost", 0, ddp::TcpStoreOptions{.is_master = true});
  return {nullptr, master, std::make_shared<ddp::TcpStore>("127.0.0.1", master->port())};
}

Stores file_stores() {
  const auto folder = std::make_shared<Folder>();
  const auto open = [&] { return std::make_shared<ddp::FileStore>(folder->path / "store"); };
  return {folder, open(), open()};
}

Stores prefixed(const Stores& plain) {
  return {plain.server, std::make_shared<ddp::PrefixStore>("room", plain.a),
          std::make_shared<ddp::PrefixStore>("room", plain.b)};
}

/// Every kind of store, one in each run of the test.
Stores each_store() {
  const auto make = GENERATE(
      as<std::function<Stores()>>(), hash_stores, clients_of_the_launcher, master_and_client,
      file_stores, [] { return prefixed(hash_stores()); },
      [] { return prefixed(master_and_client()); });
  Stores stores = make();
  UNSCOPED_INFO(stores.a->name());
  for (auto& store : {stores.a, stores.b}) store->set_timeout(20s);
  return stores;
}

}  // namespace

TEST_CASE("every store: a value set by one client is read by another, byte for byte") {
  const auto [server, a, b] = each_store();
  const std::string large(3 << 20, '\xfe');
  a->set("large", large);
  a->set(std::string("n\0l", 3), std::string("a\0b", 3));
  a->set("empty", "");
  a->set("", "of the empty key");
  CHECK(b->get("large") == large);
  CHECK(b->get(std::string("n\0l", 3)) == std::string("a\0b", 3));
  CHECK(b->get("empty").empty());
  CHECK(b->get("") == "of the empty key");
  b->set("large", "small");
  CHECK(a->get("large") == "small");
}

TEST_CASE("every store: get and wait end when the keys are set, by any operation") {
  const auto [server, a, b] = each_store();
  const auto late = [](auto call) { return std::async(std::launch::async, call); };
  auto value = late([&, b = b] { return b->get("set"); });
  auto all = late([&, b = b] { b->wait({"added", "appended", "compared"}); });
  auto many = late([&, b = b] { return b->multi_get({"m2", "m1"}); });
  a->set("set", "here");
  a->add("added", 1);
  a->append("appended", "x");
  a->compare_set("compared", "", "y");
  a->multi_set({{"m1", "one"}, {"m2", "two"}});
  CHECK(value.get() == "here");
  CHECK_NOTHROW(all.get());
  CHECK(many.get() == Keys{"two", "one"});
}

TEST_CASE("every store: a timeout names the missing keys, and the store stays usable") {
  const auto [server, a, b] = each_store();
  a->set("there", "1");
  for (const auto timeout : {0ms, 30ms}) {
    const auto error = error_of([&, a = a] { a->wait({"there", "gone", "never"}, timeout); });
    CHECK(error.kind() == ErrorKind::timed_out);
    CHECK(contains(error.what(), a->name()));
    CHECK(contains(error.what(), "timed out after " + std::to_string(timeout.count()) +
                                     (timeout == 0ms ? "" : " m")));
    CHECK(contains(error.what(), "waiting for keys gone, never"));
    CHECK(a->get("there", 0ms) == "1");
  }
  a->set_timeout(40ms);
  CHECK(a->timeout() == 40ms);
  CHECK(contains(error_of([a = a] { a->get("none"); }).what(), "40 ms waiting for key none"));
  CHECK(error_of([a = a] { a->multi_get({"none"}); }).kind() == ErrorKind::timed_out);
  b->set("none", "now");
  CHECK(a->get("none") == "now");
}

TEST_CASE("every store: counters are decimal text, and many clients may share them") {
  const auto [server, a, b] = each_store();
  CHECK(a->add("n", 5) == 5);
  CHECK(b->add("n", -7) == -2);
  CHECK(a->get("n") == "-2");
  a->set("n", "41");
  CHECK(b->add("n", 1) == 42);
  CHECK(b->add("n", 0) == 42);

  const auto count = [](ddp::Store& store) {
    for (int i = 0; i < 100; ++i) store.add("shared", 1);
  };
  std::vector<std::thread> threads;
  for (auto& store : {a, b, a, b}) threads.emplace_back([&count, store] { count(*store); });
  for (auto& thread : threads) thread.join();
  CHECK(a->add("shared", 0) == 400);
}

TEST_CASE("every store: compare_set stores if the value is the expected one") {
  const auto [server, a, b] = each_store();
  CHECK(a->compare_set("k", "x", "y") == "x");  // nothing stored
  CHECK_FALSE(b->check({"k"}));
  CHECK(a->compare_set("k", "", "one") == "one");
  CHECK(b->compare_set("k", "", "two") == "one");
  CHECK(b->compare_set("k", "one", "two") == "two");
  CHECK(a->get("k") == "two");
}

TEST_CASE("every store: one of concurrent compare_sets wins, and all return its value") {
  const auto [server, a, b] = each_store();
  std::vector<std::future<std::string>> outcomes;
  for (int i = 0; i < 8; ++i) {
    outcomes.push_back(std::async(std::launch::async, [store = i % 2 ? a : b, i] {
      return store->compare_set("leader", "", std::to_string(i));
    }));
  }
  const std::string leader = a->get("leader");
  for (auto& outcome : outcomes) CHECK(outcome.get() == leader);
}

TEST_CASE("every store: keys are checked, counted, appended to and deleted") {
  const auto [server, a, b] = each_store();
  const auto before = a->num_keys();
  a->append("k", "he");
  b->append("k", "llo");
  a->set("l", "");
  CHECK(a->get("k") == "hello");
  CHECK(a->num_keys() == before + 2);
  CHECK(b->check({"k", "l"}));
  CHECK_FALSE(b->check({"k", "none"}));
  CHECK(b->check({}));
  CHECK(a->delete_key("k"));
  CHECK_FALSE(b->delete_key("k"));
  CHECK_FALSE(b->check({"k"}));
  CHECK(b->num_keys() == before + 1);
  CHECK_NOTHROW(a->wait({}));
  CHECK(a->multi_get({}).empty());
  CHECK_NOTHROW(a->multi_set({}));
}

TEST_CASE("every store: a waiting thread does not delay other calls on the same store") {
  const auto [server, a, b] = each_store();
  std::vector<std::future<std::string>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(
        std::async(std::launch::async, [a = a, i] { return a->get("late/" + std::to_string(i)); }));
  }
  for (int i = 0; i < 3; ++i) a->set("late/" + std::to_string(i), std::to_string(i));
  for (int i = 0; i < 3; ++i) CHECK(waiting[i].get() == std::to_string(i));
}

TEST_CASE("every store: too large keys, values and lists are refused, and nothing is lost") {
  const auto [server, a, b] = each_store();
  const std::string long_key(8193, 'k');
  const std::string long_value((8 << 20) + 1, 'v');
  const std::vector<std::function<void()>> calls = {
      [&, a = a] { a->set(long_key, ""); },
      [&, a = a] { a->set("k", long_value); },
      [&, a = a] { a->append("k", long_value); },
      [&, a = a] { a->multi_set({{"k", "1"}, {long_key, ""}}); },
      [&, a = a] { a->compare_set("k", "", long_value); },
      [&, a = a] { a->wait({"k", long_key}); },
      [&, a = a] { a->check(Keys(131'073)); },
      [&, a = a] { a->check(Keys(8'065, std::string(8'192, 'k'))); },  // 63 MiB and a key
      [&, a = a] { a->multi_set({8, {"k", std::string(8 << 20, 'v')}}); },
      [&, a = a] { a->get("k", -1ms); },
      [&, a = a] { a->set_timeout(-1ms); },
  };
  for (const auto& call : calls) {
    const auto error = error_of(call);
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(contains(error.what(), "ddp: "));
  }
  CHECK_FALSE(b->check({"k"}));
}

TEST_CASE("every store: add to a value that is no number fails, and the value stays") {
  const auto [server, a, b] = each_store();
  a->set("k", "abc");
  CHECK_THROWS_AS(a->add("k", 1), ddp::Error);
  CHECK(b->get("k") == "abc");
}

TEST_CASE("a prefix separates keys in any store") {
  const auto store = std::make_shared<ddp::HashStore>();
  ddp::PrefixStore one("one", store);
  const auto two = std::make_shared<ddp::PrefixStore>("two", store);
  ddp::PrefixStore inner("in", two);
  one.set("k", "1");
  two->set("k", "2");
  inner.set("k", "3");
  CHECK(store->get("one/k") == "1");
  CHECK(store->get("two/k") == "2");
  CHECK(store->get("two/in/k") == "3");
  CHECK(one.num_keys() == 3);  // of the whole store
  CHECK(one.underlying() == store);
  CHECK(inner.underlying() == two);
  CHECK(error_of([&] { inner.get("none", 0ms); }).kind() == ErrorKind::timed_out);
  CHECK(error_of([&] { inner.set(std::string(8190, 'k'), ""); }).kind() == ErrorKind::usage);
  CHECK(error_of([] { ddp::PrefixStore("p", nullptr); }).kind() == ErrorKind::usage);
}
