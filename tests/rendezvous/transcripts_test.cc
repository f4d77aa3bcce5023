// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/rendezvous/transcript.h"

namespace ddprun::rendezvous {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> transcripts() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_TRANSCRIPTS)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("every transcript of many nodes replays to itself") {
  const auto files = transcripts();
  CHECK(files.size() >= 20);
  for (const auto& file : files) {
    const std::string actual = replay(contents(file));
    INFO(file.string() << " is really:\n\n" << actual);
    CHECK((actual == contents(file)));
    CHECK(actual.find("error: ") == std::string::npos);
  }
}

TEST_CASE("a transcript that tells another story is noticed") {
  const std::string told = "nodes 1:1 restarts 0\na joins 4\n----\na: closed: succeeded\n";
  CHECK(replay(told) ==
        "nodes 1:1 restarts 0\na joins 4\n----\n"
        "a: ready round 0 restarts 0 node 0 of 1 ranks 0-3 of 4\n");
  CHECK(replay("nodes 1:1 restarts 0\na dances\n").find("error: ") != std::string::npos);
}

}  // namespace
}  // namespace ddprun::rendezvous
