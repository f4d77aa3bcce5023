// SPDX-License-Identifier: Apache-2.0
#include "store/wire.h"

#include "tests/catch.h"
#include "tests/store/bytes.h"

using namespace ddprun::store;
using namespace ddprun::store::bytes;
using Status = RequestParser::Status;

namespace {

constexpr WireLimits kLimits;

/// Parses `bytes` as the first of a connection, after the greeting.
Status after_greeting(const std::string& bytes, WireLimits limits = kLimits) {
  RequestParser parser(limits);
  REQUIRE(parser.next(kHello) == Status::complete);
  return parser.next(bytes);
}

Status alone(const std::string& bytes) {
  return RequestParser(kLimits).next(bytes);
}

/// The number of bytes of `bytes` after which the parser refuses them.
std::size_t refused_at(const std::string& bytes) {
  RequestParser parser(kLimits);
  std::size_t start = 0;
  for (std::size_t end = 1; end <= bytes.size(); ++end) {
    const auto rest = std::string_view(bytes).substr(start, end - start);
    const Status status = parser.next(rest);
    if (status == Status::malformed) return end;
    if (status == Status::complete) start += parser.request().bytes.size();
  }
  return 0;
}

}  // namespace

TEST_CASE("the first five bytes decide the dialect") {
  RequestParser current(kLimits);
  for (std::size_t size = 0; size < 5; ++size) {
    CHECK(current.next(std::string_view(kHello).substr(0, size)) == Status::incomplete);
    CHECK(current.dialect() == Dialect::undecided);
  }
  CHECK(current.next(kHello) == Status::complete);
  CHECK(current.dialect() == Dialect::current);

  RequestParser legacy(kLimits);
  const std::string set = std::string(1, '\0') + text("k") + text("v");
  CHECK(legacy.next(std::string_view(set).substr(0, 1)) == Status::incomplete);
  CHECK(legacy.next(set) == Status::complete);
  CHECK(legacy.dialect() == Dialect::legacy);
  CHECK(legacy.request().op == RequestType::set);
  CHECK(legacy.request().field(0) == "k");
  CHECK(legacy.request().field(1) == "v");
}

TEST_CASE("bytes that cannot be a store client's are refused at the first byte that shows it") {
  CHECK(refused_at("GET / HTTP/1.1\r\n\r\n") == 1);
  CHECK(refused_at("SSH-2.0-OpenSSH") == 1);
  CHECK(refused_at(std::string("\x16\x03\x01\x02\x00", 5)) == 1);
  CHECK(refused_at("ddprun") == 1);
  CHECK(refused_at("\r\n") == 1);
  CHECK(refused_at(std::string("\0\xCE\xF7\x85\x3D", 5)) == 5);
  CHECK(refused_at(std::string("\0\x11\x22\x33\x44", 5)) == 3);
  CHECK(refused_at(std::string("\0\xCE\xF7\x86", 4)) == 4);
  CHECK(refused_at(kHello + "c") == 6);
  CHECK(refused_at(kHello + kHello) == 6);

  CHECK(refused_at(std::string(1, '\0')) == 0);
  CHECK(refused_at("\x03") == 0);
}

TEST_CASE("lengths and counts are refused above their limit and taken at it") {
  const std::string key(8 << 10, 'k');
  const std::string value(8 << 20, 'v');
  CHECK(after_greeting(set(key, "v")) == Status::complete);
  CHECK(after_greeting(set(key + "k", "v")) == Status::malformed);
  CHECK(after_greeting(set("k", value)) == Status::complete);
  CHECK(after_greeting(set("k", value + "v")) == Status::malformed);
  CHECK(after_greeting(compare_set("k", value, value)) == Status::complete);
  CHECK(after_greeting(wait(std::vector<std::string>(131'072, "k"))) == Status::complete);
  CHECK(after_greeting(wait(std::vector<std::string>(131'073, "k"))) == Status::malformed);
}

TEST_CASE("invalid lengths are refused before anything is allocated") {
  const std::string huge(8, '\xff');
  const std::string half = std::string(7, '\0') + '\x80';
  for (const auto& length : {huge, half}) {
    CHECK(after_greeting(type(RequestType::get) + length) == Status::malformed);
    CHECK(after_greeting(type(RequestType::set) + text("k") + length) == Status::malformed);
    CHECK(after_greeting(type(RequestType::wait) + length) == Status::malformed);
    CHECK(after_greeting(type(RequestType::multi_set) + length) == Status::malformed);
    CHECK(alone(std::string(1, '\0') + length) == Status::malformed);
  }
}

TEST_CASE("a request is bounded as a whole") {
  WireLimits limits;
  limits.request_bytes = 100;
  CHECK(after_greeting(check({std::string(60, 'a')}), limits) == Status::complete);
  const auto two = check({std::string(60, 'a'), std::string(60, 'b')});
  CHECK(after_greeting(two, limits) == Status::malformed);
  // Refused when the length is known, not when the bytes have come.
  CHECK(after_greeting(two.substr(0, two.size() - 60), limits) == Status::malformed);
}

TEST_CASE("a request may arrive byte by byte, and move in memory between calls") {
  const std::string sent =
      type(RequestType::multi_set) + integer(2) + text("a") + text("1") + text("") + text("22");
  RequestParser parser(kLimits);
  REQUIRE(parser.next(kHello) == Status::complete);
  for (std::size_t size = 0; size < sent.size(); ++size) {
    const std::string so_far = sent.substr(0, size);
    REQUIRE(parser.next(so_far) == Status::incomplete);
  }
  const std::string all = sent + "next";
  REQUIRE(parser.next(all) == Status::complete);
  const Request& request = parser.request();
  CHECK(request.op == RequestType::multi_set);
  CHECK(request.bytes == sent);
  REQUIRE(request.fields.size() == 4);
  CHECK(request.field(0) == "a");
  CHECK(request.field(1) == "1");
  CHECK(request.field(2) == "");
  CHECK(request.field(3) == "22");
}

TEST_CASE("an empty list is a whole request") {
  RequestParser parser(kLimits);
  REQUIRE(parser.next(kHello) == Status::complete);
  REQUIRE(parser.next(multi_get({}) + "x") == Status::complete);
  CHECK(parser.request().fields.empty());
  CHECK(parser.request().bytes.size() == 9);
}
