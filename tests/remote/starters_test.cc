// SPDX-License-Identifier: Apache-2.0
#include "remote/starters.h"

#include <algorithm>

#include "tests/catch.h"

namespace ddprun::remote {
namespace {

TEST_CASE(
    "the user's options of ssh come before ours, and the shell there gets one plain command") {
  const Words words = ssh_command("ssh  -p 2222", "me@b", "/my tools/ddprun");
  CHECK(Words(words.begin(), words.begin() + 3) == Words{"ssh", "-p", "2222"});
  CHECK(std::count(words.begin(), words.end(), "BatchMode=yes") == 1);
  CHECK(Words(words.end() - 2, words.end()) ==
        Words{"me@b", "exec '/my tools/ddprun' --remote_agent"});
}

TEST_CASE("each failure of a start has a sentence that says what to do") {
  const Words ssh = ssh_command("ssh", "b", "/opt/ddprun");
  CHECK(start_failure_text({"b", ssh, 2, "cannot enter the directory /x", "anything"}) ==
        "host b: cannot enter the directory /x");
  CHECK(start_failure_text({"b", ssh, 127, "", "bash: /opt/ddprun: No such file"}) ==
        "host b: no ddprun there (bash: /opt/ddprun: No such file): install it at the same path on "
        "all hosts");
  CHECK(
      start_failure_text({"b", ssh, 2, "", "ddprun: unknown flag --remote_agent; ddprun --help"}) ==
      "host b: ddprun there has another version (ddprun: unknown flag --remote_agent; ddprun "
      "--help): install " DDPRUN_VERSION " on all hosts");
  const std::string refused = start_failure_text({"b", ssh, 255, "", "Connection refused"});
  CHECK(
      refused.starts_with("host b: cannot be reached: ssh ended with exit code 255 (Connection "
                          "refused); try it by hand: ssh -o BatchMode=yes "));
  CHECK(refused.ends_with(" b true"));
  CHECK(start_failure_text({"b", srun_command("b", "/opt/ddprun"), 1, "", "Job has expired"}) ==
        "host b: cannot be reached: srun ended with exit code 1 (Job has expired); try it by "
        "hand: srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=b --overlap --mpi=none "
        "--cpu-bind=none --export=ALL --kill-on-bad-exit=0 --quiet -- true");
  CHECK(start_failure_text({"b", ssh, 255, "", "", "pbsdsh ddprun"})
            .ends_with(" b true; or start ddprun on every node: pbsdsh ddprun"));
  CHECK(start_failure_text({"b", flux_command("b", "/opt/ddprun"), 1, "", ""})
            .ends_with("--requires=host:b --setopt=cpu-affinity=off --unbuffered true"));
  CHECK(start_failure_text({"b", local_command("/opt/ddprun"), 1, "", ""}) ==
        "host b: cannot be reached: ddprun ended with exit code 1");
}

}  // namespace
}  // namespace ddprun::remote
