// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/node.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/store/served.h"

using namespace ddprun;

TEST_CASE("doctor: a node without a report leaves its place empty, and the others keep theirs") {
  const store::Served served;
  const std::chrono::minutes long_enough{1};
  store::Client client =
      must(store::Client::connect("127.0.0.1", served.port(), long_enough, long_enough));
  must(client.set("facts/0", "first"));
  must(client.set("facts/2", "last"));
  const std::vector<std::string> keys = {"facts/0", "facts/1", "facts/2"};
  const std::vector<std::optional<std::string>> expected = {"first", std::nullopt, "last"};
  CHECK(must(doctor::collect(client, keys, std::chrono::milliseconds(10))) == expected);
}
