// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/core_file.h"

#include "tests/catch.h"

namespace ddprun::launcher {

TEST_CASE("core: known parts of its name are filled in") {
  CHECK(core_glob("core", false, 4711) == "core");
  CHECK(core_glob("core", true, 4711) == "core.4711");
  CHECK(core_glob("/var/core/%e.%p.%t", true, 4711) == "/var/core/*.4711.*");
  CHECK(core_glob("100%%-%h", false, 4711) == "100%-*");
  CHECK(core_glob("core%", false, 4711) == "core");
}

TEST_CASE("core: a core that a program takes has no name") {
  CHECK(core_glob("|/usr/share/apport/apport %p", true, 4711).empty());
  CHECK(core_glob("", true, 4711).empty());
}

}  // namespace ddprun::launcher
