// SPDX-License-Identifier: Apache-2.0
#include "cli/line/config.h"
#include "cli/manual/pages.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;

TEST_CASE("the schema of ddprun.toml has each flag that a file may set") {
  const std::string schema = printed({"help", "--schema"});
  CHECK(schema == cli::config_schema());
  for (const cli::Flag& flag : cli::flags()) {
    INFO(flag.name);
    const std::string property = "\n  \"" + std::string(flag.name) + "\": {";
    CHECK((schema.find(property) != std::string::npos) == cli::is_for_files(flag));
  }
}
