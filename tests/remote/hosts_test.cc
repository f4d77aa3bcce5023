// SPDX-License-Identifier: Apache-2.0
#include "remote/hosts.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::remote {
namespace {

std::string text_of(const HostNames& hosts) {
  std::string text;
  for (const HostName& host : hosts) {
    text += (text.empty() ? "" : " ") + host.name;
    if (host.slots) text += "/" + std::to_string(*host.slots);
  }
  return text;
}

std::string refusal(const Result<HostNames>& hosts) {
  return hosts ? "was not refused: " + text_of(*hosts) : hosts.error().message;
}

TEST_CASE("hosts are names between commas, with slots or without") {
  CHECK(text_of(must(parse_host_list("a"))) == "a");
  CHECK(text_of(must(parse_host_list("a,me@b.cluster:4,10.0.0.1:2"))) ==
        "a me@b.cluster/4 10.0.0.1/2");
  CHECK(text_of(must(parse_host_list("fd09::1,[fd09::2]:8,me@[fd09::3]"))) ==
        "fd09::1 fd09::2/8 me@fd09::3");
}

TEST_CASE("the slots of a host that is named more than once are added") {
  CHECK(text_of(must(parse_host_list("a,b,a"))) == "a/2 b");
  CHECK(text_of(must(parse_host_list("a:4,b,a:2"))) == "a/6 b");
}

TEST_CASE("a file of hosts has the format of Open MPI or MPICH") {
  CHECK(text_of(must(parse_host_file("# nodes\n\na slots=4 max_slots=8\r\n  b:2 # old\nc\n"))) ==
        "a/4 b/2 c");
  CHECK(refusal(parse_host_file("\n# none\n")) == "names no host");
  CHECK(refusal(parse_host_file("a\nb cores=4\n")) == "line 2: expected slots=N, not 'cores=4'");
}

TEST_CASE("a name that ssh could read as an option, or a shell as more than a name, is refused") {
  for (const char* text :
       {"", "a,", ",a", "-oProxyCommand=x", "a b", "a;b", "$(a)", "me@", "a/b"}) {
    INFO(text);
    CHECK(refusal(parse_host_list(text)).starts_with("expected the name of a host, not '"));
  }
  for (const char* text : {"a:0", "a:", "a:x", "a:65537", "a:99999999999", "[::1]4x"}) {
    INFO(text);
    CHECK(refusal(parse_host_list(text)).starts_with("expected a number of slots from 1 to 65536"));
  }
}

TEST_CASE("a name that means the host itself on every host is recognized") {
  for (const char* name : {"localhost", "me@localhost", "127.0.0.1", "::1"})
    CHECK(is_loopback(name));
  for (const char* name : {"local", "localhost1", "10.0.0.1", "fd09::1"})
    CHECK_FALSE(is_loopback(name));
}

}  // namespace
}  // namespace ddprun::remote
