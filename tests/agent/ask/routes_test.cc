// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/routes.h"

#include "tests/catch.h"

using namespace ddprun::agent::ask;

namespace {

Handler named(const std::string& name) {
  return [name](const Question& question, const Respond& respond) {
    respond({200, name + ":" + question.rest + ":" + question.query});
  };
}

Answer ask(const std::string& method, const std::string& path, const std::string& query = "") {
  Routes routes;
  routes.add("GET", "/status", named("status"));
  routes.add("GET", "/logs/", named("logs"));
  routes.add("POST", "/stop", named("stop"));
  Answer got{0, ""};
  routes.ask({method, path, query, ""}, [&got](const Answer& answer) { got = answer; });
  return got;
}

}  // namespace

TEST_CASE("routes: a question goes to its handler") {
  CHECK(ask("GET", "/status").body == "status::");
  CHECK(ask("GET", "/status", "node=1").body == "status::node=1");
  CHECK(ask("GET", "/logs/3", "from=7").body == "logs:3:from=7");
  CHECK(ask("POST", "/stop").body == "stop::");
}

TEST_CASE("routes: others are refused with a sentence") {
  CHECK(ask("GET", "/statuses").status == 404);
  CHECK(ask("GET", "/logs").status == 404);
  CHECK(ask("GET", "/").body == "{\"error\":\"nothing is known of /\"}\n");
  CHECK(ask("GET", "/stop").status == 405);
  CHECK(ask("GET", "/stop").body == "{\"error\":\"/stop is not for GET\"}\n");
  CHECK(ask("GET", "/\x1b[2J\xff").body ==
        "{\"error\":\"nothing is known of /\\\\x1b[2J\\\\xff\"}\n");
}

TEST_CASE("routes: values of a query") {
  CHECK(query_value("from=12&node=1", "from") == "12");
  CHECK(query_value("from=12&node=1", "node") == "1");
  CHECK(query_value("from=12&node=1", "nod").empty());
  CHECK(query_value("from", "from").empty());
  CHECK(query_value("", "from").empty());
  CHECK(query_value("&&=&from=", "from").empty());
}
