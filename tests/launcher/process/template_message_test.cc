// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/template_message.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"

using namespace ddprun::launcher;
using namespace std::string_literals;
using namespace std::string_view_literals;
using Kind = TemplateMessage::Kind;

TEST_CASE("a message of the template has the fields of its kind") {
  CHECK(parse_template_message("ready")->kind == Kind::ready);
  CHECK(parse_template_message("done")->kind == Kind::done);
  const auto refused = parse_template_message("refused\0two threads run"sv);
  REQUIRE(refused);
  CHECK(refused->kind == Kind::refused);
  CHECK(refused->text == "two threads run");
  const auto failed = parse_template_message("failed\0ValueError: x\0Traceback\n  File"sv);
  REQUIRE(failed);
  CHECK(failed->text == "ValueError: x");
  CHECK(failed->traceback == "Traceback\n  File");
  const auto started = parse_template_message("started\0004711"sv);
  REQUIRE(started);
  CHECK(started->pid == 4711);
  CHECK(parse_template_message("not_started\0no memory"sv)->kind == Kind::not_started);
}

TEST_CASE("bytes that are no message of the template are rejected") {
  const std::string_view bytes =
      GENERATE(""sv, "\0"sv, "redy"sv, "ready\0"sv, "ready\0x"sv, "started"sv, "started\0"sv,
               "started\0-1"sv, "started\0001"sv, "started\00012 "sv, "started\00099999999999999"sv,
               "started\00012\0x"sv, "failed\0x"sv, "failed\0x\0y\0z"sv, "refused"sv, "\0ready"sv);
  INFO(bytes);
  CHECK_FALSE(parse_template_message(bytes));
  CHECK_FALSE(parse_template_message("refused\0"s + std::string(kMaxTemplateMessage, 'x')));
}

TEST_CASE("a request has CPUs, the words of a command line and the whole environment") {
  Command command;
  command.arguments = {"python3", "-u", "train.py", ""};
  command.environment = {"RANK=1"};
  command.common_environment =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"WORLD_SIZE=2"});
  command.cpus = {0, 2};
  CHECK(fork_request(command) == "0,2\0004\0python3\0-u\0train.py\0\0WORLD_SIZE=2\0RANK=1\0"sv);
  CHECK(fork_request(Command{}) == "\0000\0"sv);
}
