// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <algorithm>
#include <limits>

#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::store;

namespace {

using Ids = std::vector<ClientId>;

constexpr std::size_t kPlenty = 1 << 20;

std::string text(const Value& value) {
  return value ? *value : "(missing)";
}

}  // namespace

TEST_CASE("a counter is decimal text that starts at nothing and wraps") {
  Store store(kPlenty);
  CHECK(must(store.add("c", 5)) == 5);
  CHECK(must(store.add("c", -7)) == -2);
  CHECK(text(store.get("c")) == "-2");
  CHECK(must(store.add("read", 0)) == 0);
  CHECK(text(store.get("read")) == "0");

  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  must(store.set("c", std::to_string(kMost)));
  CHECK(must(store.add("c", 1)) == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("a counter is read from text as C reads it") {
  Store store(kPlenty);
  const auto one_more_than = [&](const char* stored) {
    must(store.set("c", stored));
    return store.add("c", 1);
  };
  CHECK(must(one_more_than("41")) == 42);
  CHECK(must(one_more_than(" \t41")) == 42);
  CHECK(must(one_more_than("+41")) == 42);
  CHECK(must(one_more_than("12abc")) == 13);
  for (const char* text : {"", "abc", "+-1", "-", " ", "9223372036854775808"}) {
    INFO(text);
    CHECK(one_more_than(text).has_error());
    CHECK(*store.get("c") == text);
  }
}

TEST_CASE("compare_set stores if the expectation holds, and returns the value") {
  Store store(kPlenty);
  CHECK(must(store.compare_set("k", "expected", "new")) == "expected");
  CHECK(store.get("k") == nullptr);
  CHECK(must(store.compare_set("k", "", "one")) == "one");
  CHECK(must(store.compare_set("k", "one", "two")) == "two");
  CHECK(must(store.compare_set("k", "one", "three")) == "two");
  CHECK(text(store.get("k")) == "two");
}

TEST_CASE("a waiter is woken once every key has existed, even if not at the same time") {
  Store store(kPlenty);
  must(store.set("here", ""));
  CHECK(must(store.wait(1, {"here"})));
  CHECK(must(store.wait(1, {})));

  CHECK_FALSE(must(store.wait(1, {"a", "here", "b", "a"})));
  must(store.set("a", ""));
  CHECK_FALSE(store.has_events());
  CHECK(store.remove("a"));
  must(store.append("b", "x"));
  CHECK(store.take_woken() == Ids{1});

  must(store.set("b", "again"));
  CHECK_FALSE(store.has_events());
}

TEST_CASE("every way to create a key wakes the clients that wait for it") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.wait(1, {"k"})));
  CHECK_FALSE(must(store.wait(2, {"k"})));
  SECTION("set") {
    must(store.set("k", ""));
  }
  SECTION("add") {
    must(store.add("k", 1));
  }
  SECTION("append") {
    must(store.append("k", ""));
  }
  SECTION("compare_set") {
    must(store.compare_set("k", "", "x"));
  }
  CHECK(store.take_woken() == Ids{1, 2});
}

TEST_CASE("a client that stops waiting, waits again or leaves is not woken") {
  Store store(kPlenty);
  for (const ClientId client : {1, 2, 3, 4}) CHECK_FALSE(must(store.wait(client, {"k", "l"})));
  store.cancel_wait(1);
  CHECK_FALSE(must(store.wait(2, {"other"})));
  store.forget(3);
  must(store.set("k", ""));
  must(store.set("l", ""));
  CHECK(store.take_woken() == Ids{4});
  must(store.set("other", ""));
  CHECK(store.take_woken() == Ids{2});
}

TEST_CASE(
    "a failure is the value of every failure key that is awaited, then or later, and of no other") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.wait(1, {"/a/ddprun/alarm/0"})));
  CHECK_FALSE(must(store.wait(2, {"/b/ddprun/alarm/1"})));
  CHECK_FALSE(must(store.wait(3, {"/ddprun/other"})));
  must(store.set("/a/ddprun/alarm/2", "own"));
  store.notify_failure("rank 3 is gone");
  auto woken = store.take_woken();
  std::ranges::sort(woken);
  CHECK(woken == Ids{1, 2});
  CHECK(text(store.get("/a/ddprun/alarm/0")) == "rank 3 is gone");
  CHECK(text(store.get("/b/ddprun/alarm/1")) == "rank 3 is gone");
  CHECK(store.key_count() == 3);

  CHECK(must(store.wait(4, {"/c/ddprun/alarm/7"})));
  CHECK(text(store.get("/c/ddprun/alarm/7")) == "rank 3 is gone");
  CHECK(must(store.wait(5, {"/a/ddprun/alarm/2"})));
  CHECK(text(store.get("/a/ddprun/alarm/2")) == "own");
}

TEST_CASE("queues are first in first out, and separate from keys") {
  Store store(kPlenty);
  must(store.push("q", "1"));
  must(store.push("q", "2"));
  CHECK(store.queue_length("q") == 2);
  CHECK(store.get("q") == nullptr);
  CHECK_FALSE(store.remove("q"));
  CHECK(store.key_count() == 0);
  CHECK(store.has("q"));
  CHECK(store.pop("q") == "1");
  CHECK(store.pop("q") == "2");
  CHECK(store.pop("q") == std::nullopt);
  CHECK_FALSE(store.has("q"));
}

TEST_CASE("a push wakes one waiter, the first") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.wait(9, {"q", "other"})));
  CHECK_FALSE(must(store.wait(7, {"q"})));
  CHECK_FALSE(must(store.wait(5, {"q"})));
  must(store.push("q", "1"));
  CHECK(store.take_woken() == Ids{7});
  must(store.push("q", "2"));
  CHECK(store.take_woken() == Ids{5});
  must(store.set("other", ""));
  CHECK(store.take_woken() == Ids{9});
}

TEST_CASE("a barrier releases all when the last has come") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.barrier(1, "b", 3)));
  CHECK_FALSE(must(store.barrier(2, "b", 3)));
  CHECK(text(store.get("b")) == "2");
  CHECK(must(store.barrier(3, "b", 3)));
  CHECK(store.take_woken() == Ids{1, 2});
  CHECK(must(store.barrier(4, "b", 3)));
}

TEST_CASE("a barrier of no clients returns at once, and an abandoned one still counts") {
  Store store(kPlenty);
  CHECK(must(store.barrier(1, "none", 0)));
  CHECK(must(store.barrier(1, "none", -1)));
  CHECK(text(store.get("none")) == "2");

  CHECK_FALSE(must(store.barrier(1, "b", 2)));
  store.forget(1);
  CHECK(must(store.barrier(2, "b", 2)));
  CHECK_FALSE(store.has_events());
}

TEST_CASE("the key of a barrier exists from the first arrival, and setting it releases") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.wait(1, {"b"})));
  CHECK_FALSE(must(store.barrier(2, "b", 9)));
  CHECK(store.take_woken() == Ids{1});
  must(store.set("b", "go"));
  CHECK(store.take_woken() == Ids{2});
  CHECK(store.barrier(3, "b", 9).has_error());
}

TEST_CASE("a compare_set that stores nothing releases clients at a barrier, as PyTorch's does") {
  Store store(kPlenty);
  CHECK_FALSE(must(store.barrier(1, "b", 9)));
  CHECK(must(store.compare_set("b", "another", "value")) == "1");
  CHECK(store.take_woken() == Ids{1});
}

TEST_CASE("a client that watches a key gets its changes") {
  Store store(kPlenty);
  must(store.watch(1, "k"));
  must(store.watch(1, "k"));
  must(store.set("k", "a"));
  must(store.append("k", "b"));
  must(store.set("other", ""));
  CHECK(store.remove("k"));
  const auto events = store.take_changes();
  REQUIRE(events.size() == 3);
  CHECK(events[0].change == Change::created);
  CHECK(text(events[0].after) == "a");
  CHECK(events[1].change == Change::updated);
  CHECK(text(events[1].before) == "a");
  CHECK(text(events[1].after) == "ab");
  CHECK(events[2].change == Change::deleted);
  CHECK(text(events[2].before) == "ab");

  store.forget(1);
  must(store.set("k", "a"));
  CHECK_FALSE(store.has_events());
}

TEST_CASE("a value that is being sent keeps its bytes") {
  Store store(kPlenty);
  must(store.set("k", "old"));
  const Value sent = store.get("k");
  must(store.set("k", "new"));
  CHECK(*sent == "old");
  const Value sent_too = store.get("k");
  must(store.append("k", "er"));
  CHECK(*sent_too == "new");
  CHECK(text(store.get("k")) == "newer");
}

TEST_CASE("a full store refuses what would grow it, and changes nothing") {
  Store store(1000);
  must(store.set("k", std::string(500, 'x')));
  CHECK(store.set("k", std::string(900, 'x')).has_error());
  CHECK(store.set("l", std::string(400, 'x')).has_error());
  CHECK(store.append("k", std::string(400, 'x')).has_error());
  CHECK(store.push("q", std::string(400, 'x')).has_error());
  CHECK(store.wait(1, {std::string(200, 'w')}).has_error());
  CHECK(store.barrier(1, "b", 2).has_error());
  CHECK(store.watch(1, std::string(200, 'w')).has_error());
  CHECK(store.get("k")->size() == 500);
  CHECK(store.key_count() == 1);
  must(store.set("k", "small"));
  must(store.set("l", std::string(400, 'x')));
}

TEST_CASE("freed memory counts as free") {
  Store store(kPlenty);
  must(store.set("k", "value"));
  must(store.set("k", "longer value"));
  must(store.add("c", 100));
  must(store.push("q", "1"));
  must(store.push("q", "2"));
  must(store.watch(1, "k"));
  CHECK_FALSE(must(store.wait(1, {"a", "a", "b"})));
  CHECK_FALSE(must(store.wait(2, {"a", "b"})));
  CHECK_FALSE(must(store.barrier(3, "c", 200)));
  must(store.set("a", ""));
  CHECK(store.bytes() > 0);

  for (const char* key : {"k", "c", "a"}) CHECK(store.remove(key));
  while (store.pop("q")) continue;
  for (const ClientId client : {1, 2, 3}) store.forget(client);
  CHECK(store.bytes() == 0);
}
