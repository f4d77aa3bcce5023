// SPDX-License-Identifier: Apache-2.0
#include "agent/web/access.h"

#include "tests/catch.h"

using ddprun::agent::ask::Question;
using ddprun::agent::web::Access;
using ddprun::agent::web::is_same_secret;

namespace {

Question question_to(std::string host, std::string query = "token=5ec2e7") {
  Question question;
  question.host = std::move(host);
  question.query = std::move(query);
  return question;
}

}  // namespace

TEST_CASE("web access: a request needs the whole token") {
  const Access access("5ec2e7", "gpu-01");
  CHECK(access.admits(question_to("127.0.0.1:8080")));
  CHECK(access.admits(question_to("127.0.0.1:8080", "from=3&token=5ec2e7")));
  for (const char* query : {"", "token=", "token=5ec2e", "token=5ec2e70", "token=5ec2e8",
                            "Token=5ec2e7", "xtoken=5ec2e7"}) {
    INFO(query);
    CHECK(!access.admits(question_to("127.0.0.1:8080", query)));
  }
  Question question = question_to("127.0.0.1:8080", "");
  question.authorization = "Bearer 5ec2e7";
  CHECK(access.admits(question));
  question.authorization = "Bearer 5ec2e8";
  CHECK(!access.admits(question));
  question.authorization = "Basic 5ec2e7";
  CHECK(!access.admits(question));
}

TEST_CASE("web access: a request needs a host name that no other site can have") {
  const Access access("5ec2e7", "gpu-01");
  for (const char* host : {"127.0.0.1", "10.0.0.7:80", "localhost:8080", "LOCALHOST", "gpu-01:8080",
                           "GPU-01", "[::1]:8080", "[2001:db8::1]"}) {
    INFO(host);
    CHECK(access.admits(question_to(host)));
  }
  for (const char* host :
       {"", ":8080", "evil.example", "gpu-01.evil.example", "127.0.0.1.evil.example",
        "evil.example:80:8080", "gpu-01@evil.example", "localhost.evil.example",
        "evil.example/127.0.0.1", "::1", "[evil.example]x"}) {
    INFO(host);
    CHECK(!access.admits(question_to(host)));
  }
}

TEST_CASE("web access: a request of another site's page is refused") {
  const Access access("5ec2e7", "gpu-01");
  Question question = question_to("127.0.0.1:8080");
  question.origin = "http://127.0.0.1:8080";
  CHECK(access.admits(question));
  for (const char* origin : {"http://evil.example", "http://127.0.0.1:8081", "null"}) {
    question.origin = origin;
    CHECK(!access.admits(question));
  }
}

TEST_CASE("web access: secrets are compared to their end") {
  CHECK(is_same_secret("", ""));
  CHECK(is_same_secret("abc", "abc"));
  CHECK(!is_same_secret("abc", "abd"));
  CHECK(!is_same_secret("abc", "bbc"));
  CHECK(!is_same_secret("abc", "ab"));
  CHECK(!is_same_secret("", "a"));
}
