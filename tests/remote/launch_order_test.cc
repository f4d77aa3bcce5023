// SPDX-License-Identifier: Apache-2.0
#include "remote/launch_order.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::remote {
namespace {

const Order kOrder = {"/home/me/it's here",
                      {"PATH=/bin", "NCCL_X=two\nlines 'and' \"quotes\""},
                      {"--", "./train", ""}};

std::string head_of(const std::string& bytes) {
  return bytes.substr(0, bytes.find('\n'));
}
std::string body_of(const std::string& bytes) {
  return bytes.substr(bytes.find('\n') + 1);
}

TEST_CASE("an order arrives unchanged, whatever its words contain") {
  const std::string bytes = encode(kOrder, 64);
  const Lengths lengths = must(decode_head(head_of(bytes)));
  CHECK(lengths.order == body_of(bytes).size());
  CHECK(lengths.secret == 64);
  const Order order = must(decode_body(body_of(bytes)));
  CHECK(order.directory == kOrder.directory);
  CHECK(order.environment == kOrder.environment);
  CHECK(order.arguments == kOrder.arguments);
}

TEST_CASE("an order of another version is refused with both versions") {
  const Result<Lengths> head = decode_head("ddprun 0.0.9 12 0");
  REQUIRE_FALSE(head.has_value());
  CHECK(head.error().message == "ddprun is version " DDPRUN_VERSION
                                " here, and 0.0.9 where it was started: install the same version "
                                "on all hosts");
}

TEST_CASE("an invalid order is refused") {
  for (const char* line : {"", "ddprun", "ddprun ", "ddprun " DDPRUN_VERSION,
                           "ddprun " DDPRUN_VERSION " ", "ddprun " DDPRUN_VERSION " -1 0",
                           "ddprun " DDPRUN_VERSION " 16777217 0", "ddprun " DDPRUN_VERSION " 12",
                           "ddprun " DDPRUN_VERSION " 12 ", "ddprun " DDPRUN_VERSION " 12 1025",
                           "ddprun " DDPRUN_VERSION " 12 0 0", "GET / HTTP/1.1"}) {
    INFO(line);
    CHECK_FALSE(decode_head(line).has_value());
  }
  const std::string body = body_of(encode(kOrder));
  for (size_t size = 0; size < body.size(); ++size) {
    const Result<Order> order = decode_body(body.substr(0, size));
    if (order) CHECK(order->arguments.size() < kOrder.arguments.size());
  }
  using namespace std::string_literals;
  CHECK_FALSE(decode_body("/\0"s + "3\0A=B\0"s).has_value());
  CHECK_FALSE(decode_body("/\0"s + "x\0"s).has_value());
}

}  // namespace
}  // namespace ddprun::remote
