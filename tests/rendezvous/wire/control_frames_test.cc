// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/control_frames.h"

#include <string>

#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

TEST_CASE("several frames in one piece are cut apart") {
  FrameReader reader;
  reader.feed(encode(Message(message::Succeed{1})) + encode(Message(message::Leave{})));
  CHECK(must(reader.next()).has_value());
  CHECK(must(reader.next()).has_value());
  CHECK_FALSE(must(reader.next()).has_value());
}

TEST_CASE("a frame that claims to be too long is refused before its bytes come") {
  FrameReader reader;
  reader.feed(std::string("\x00\x04\x00\x01", 4));
  CHECK(reader.next().has_error());
}

TEST_CASE("the greeting has the version, and other first bytes are no greeting") {
  CHECK(greeting().size() == kGreetingSize);
  CHECK(greeted_version(greeting()) == kProtocolVersion);
  CHECK(greeted_version(std::string("ddprun\x01\x02", 8)) == 258);
  CHECK_FALSE(greeted_version("ddprun"));
  CHECK_FALSE(greeted_version("GET / HTTP/1.1"));
}
