// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/routes.h"

#include "tests/catch.h"

using namespace ddprun::agent::ask;

namespace {

Handler named_handler(const std::string& name) {
  return [name](const Question& question, const Respond& respond) {
    respond({200, name + ":" + question.rest + ":" + question.query});
  };
}

Answer ask_routes(const std::string& method, const std::string& path,
                  const std::string& query = "") {
  Routes routes;
  routes.add("GET", "/status", named_handler("status"));
  routes.add("GET", "/logs/", named_handler("logs"));
  routes.add("POST", "/stop", named_handler("stop"));
  Answer got{0, ""};
  routes.ask({method, path, query, ""}, [&got](const Answer& answer) { got = answer; });
  return got;
}

}  // namespace

TEST_CASE("routes: a question goes to its handler") {
  CHECK(ask_routes("GET", "/status").body == "status::");
  CHECK(ask_routes("GET", "/status", "node=1").body == "status::node=1");
  CHECK(ask_routes("GET", "/logs/3", "from=7").body == "logs:3:from=7");
  CHECK(ask_routes("POST", "/stop").body == "stop::");
}

TEST_CASE("routes: a question without a handler is refused with a sentence") {
  CHECK(ask_routes("GET", "/statuses").status == 404);
  CHECK(ask_routes("GET", "/logs").status == 404);
  CHECK(ask_routes("GET", "/").body == "{\"error\":\"nothing is known of /\"}\n");
  CHECK(ask_routes("GET", "/stop").status == 405);
  CHECK(ask_routes("GET", "/stop").body == "{\"error\":\"/stop is not for GET\"}\n");
  CHECK(ask_routes("GET", "/\x1b[2J\xff").body ==
        "{\"error\":\"nothing is known of /\\\\x1b[2J\\\\xff\"}\n");
}

TEST_CASE("routes: values of a query are found by their names") {
  CHECK(query_value("from=12&node=1", "from") == "12");
  CHECK(query_value("from=12&node=1", "node") == "1");
  CHECK(query_value("from=12&node=1", "nod").empty());
  CHECK(query_value("from", "from").empty());
  CHECK(query_value("", "from").empty());
  CHECK(query_value("&&=&from=", "from").empty());
}
