// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/comment_table.h"
#include "tests/paths.h"
#include "tests/rendezvous/round/transcript.h"

namespace ddprun::rendezvous {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> transcripts() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::source_path("tests/rendezvous/transcripts"))) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

using Phases = std::set<std::string>;

/// The phases that a cell of the table in round.h leads to: "complete: > active".
Phases phases_named(const std::string& cell) {
  Phases phases;
  std::istringstream words(cell);
  for (std::string word, phase; words >> word;) {
    if (word == ">" && words >> phase)
      phases.insert(phase.substr(0, phase.find_last_not_of(";,") + 1));
  }
  return phases;
}

/// By event and phase: the phases that the transcripts led to, without the one they began in.
std::map<std::string, std::map<std::string, Phases>> phases_reached() {
  std::vector<Step> steps;
  for (const auto& file : transcripts()) replay(contents(file), &steps);
  std::map<std::string, std::map<std::string, Phases>> reached;
  for (const Step& step : steps) {
    Phases& phases = reached[step.event][step.before];
    if (step.after != step.before) phases.insert(step.after);
  }
  return reached;
}

TEST_CASE("the transcripts reach every cell of the table in round.h, and no other") {
  const CommentTable table = read_comment_table(tests::source_path("rendezvous/round/round.h"));
  CHECK(table.columns == std::vector<std::string>{"forming", "active", "ending", "closed"});
  auto reached = phases_reached();
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const std::string& cell = row.cells[i];
      INFO("cell of " << row.name << " while " << table.columns[i] << ": " << cell);
      CHECK_FALSE(cell.empty());
      const auto cell_reached = reached[row.name].find(table.columns[i]);
      const bool is_reached = cell_reached != reached[row.name].end();
      CHECK(is_reached == (cell != "x"));
      if (is_reached) CHECK(cell_reached->second == phases_named(cell));
    }
    reached.erase(row.name);
  }
  for (const auto& [event, phases] : reached) FAIL_CHECK("no row for " << event);
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

TEST_CASE("a transcript with other answers than the real ones is noticed") {
  const std::string wrong = "nodes 1:1 restarts 0\na joins 4\n----\na: closed: succeeded\n";
  CHECK(replay(wrong) ==
        "nodes 1:1 restarts 0\na joins 4\n----\n"
        "a: ready round 0 restarts 0 node 0 of 1 ranks 0-3 of 4\n");
  CHECK(replay("nodes 1:1 restarts 0\na dances\n").find("error: ") != std::string::npos);
}

}  // namespace
}  // namespace ddprun::rendezvous
