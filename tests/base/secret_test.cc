// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;

namespace {

/// The lines of /proc/self/smaps about the mapping at this address.
std::string mapping_of(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address);
  std::string found;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(start.str())) {
      found = line;
    } else if (!found.empty()) {
      found += "\n" + line;
      if (line.starts_with("VmFlags:")) return found;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a secret's memory is not in core dumps") {
  const Secret secret("0123456789");
  CHECK(secret.view() == "0123456789");
  const std::string mapping = mapping_of(secret.view().data());
  CHECK(mapping.find(" dd ") != std::string::npos);  // "do not include area into core dump"
}

TEST_CASE("only a process that has had a secret leaves no core dump") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_SET_DUMPABLE, 1);
    const bool before = prctl(PR_GET_DUMPABLE) == 1;
    {
      const Secret none;
    }
    const bool without = prctl(PR_GET_DUMPABLE) == 1;
    {
      const Secret secret("0123456789");
    }
    _exit(before && without && prctl(PR_GET_DUMPABLE) == 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a moved secret is in one place") {
  Secret first("abc");
  Secret second(std::move(first));
  CHECK(second.view() == "abc");
  second.wipe();
  CHECK_FALSE(second);
  CHECK(second.view().empty());
}

TEST_CASE("a secret that a forked process overwrites is gone in its parent, too") {
  Secret secret("abc");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    secret.wipe();
    _exit(0);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(secret.view() == std::string_view("\0\0\0", 3));
}

TEST_CASE("a taken variable is gone from the environment and from its memory") {
  char variable[] = "DDPRUN_TEST_TAKEN=value";
  REQUIRE(putenv(variable) == 0);
  const Secret taken = take_variable("DDPRUN_TEST_TAKEN");
  CHECK(taken.view() == "value");
  CHECK(getenv("DDPRUN_TEST_TAKEN") == nullptr);
  CHECK(std::memcmp(variable, "DDPRUN_TEST_TAKEN=\0\0\0\0\0", sizeof variable) == 0);
  CHECK_FALSE(take_variable("DDPRUN_TEST_TAKEN"));
}
