// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line/secret.h"
#include "cli/line/verb_line.h"
#include "cli/options.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/paths.h"

using namespace ddprun;
using tests::source_path;
namespace fs = std::filesystem;

namespace {

/// The words of a shell's command, without a comment, a redirection, or what follows a pipe.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = '\0';
  for (const char c : line + ' ') {
    if (quote != '\0' || c == '\'' || c == '"') {
      quote = c == quote ? '\0' : quote != '\0' ? quote : c;
      if (quote != '\0' && c != quote) word += c;
    } else if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      if (word == "#" || word == ">" || word == "|" || word == "&") break;
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

/// Text that stands for something else: "...", "N", "[options]", "job|jobset", a drawing.
bool is_placeholder(const std::string& word) {
  return word.find("...") != word.npos || word.find_first_of("[]|") != word.npos ||
         (word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z') || word == "RANK" ||
         word.find("\xe2\x94") != word.npos;
}

/// The arguments of each ddprun command in the indented blocks of a page. Commands that the page
/// shows as refused are left out.
std::vector<std::vector<std::string>> commands_in(const fs::path& page) {
  std::vector<std::vector<std::string>> commands;
  std::ifstream file(page);
  std::string next;
  std::getline(file, next);
  while (!next.empty() || file) {
    const std::string line = std::exchange(next, "");
    std::getline(file, next);
    if (next.starts_with("    ddprun: ")) continue;
    if (!line.starts_with("    ")) continue;
    std::vector<std::string> words = shell_words(line);
    const auto begins = [](const std::string& word) {
      return word != "$" && word.find('=') == word.npos;  // no prompt, no variable
    };
    const auto program = std::find_if(words.begin(), words.end(), begins);
    if (program == words.end() || *program != "ddprun") continue;
    words.erase(words.begin(), program + 1);
    if (std::none_of(words.begin(), words.end(), is_placeholder)) commands.push_back(words);
  }
  return commands;
}

}  // namespace

TEST_CASE("ddprun accepts each of its commands in the docs") {
  cli::Host on = host();
  on.read_file = [](const std::string&) { return std::optional<std::string>("a\nb\n"); };
  on.read_secret = [](const std::string&) -> Result<Secret> {
    return cli::decode_secret("00112233445566778899aabbccddeeff", "test");
  };
  on.directory = [] { return std::string("/work"); };
  on.executable = [] { return std::string("/opt/ddprun"); };
  on.environment = {"WANDB_API_KEY=k"};
  size_t count = 0;
  std::vector<fs::path> pages = {source_path("README.md")};
  for (const auto& entry : fs::directory_iterator(source_path("docs")))
    pages.push_back(entry.path());
  for (const fs::path& page : pages) {
    for (const std::vector<std::string>& words : commands_in(page)) {
      if (words.empty() || cli::find_verb_text(words.front()) != nullptr) continue;
      Words pointers;
      std::string text = page.filename().string() + ": ddprun";
      for (const std::string& word : words) {
        pointers.push_back(word.c_str());
        text += " " + word;
      }
      INFO(text);
      const auto parsed = cli::parse(pointers, on);
      INFO((parsed ? "" : parsed.error().message));
      CHECK(parsed.has_value());
      ++count;
    }
  }
  CHECK(count > 20);
}
