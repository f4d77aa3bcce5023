// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/manual/pages.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun;
using tests::contains;
using tests::source_path;

namespace {

/// `name` as a manual page writes it.
std::string in_roff(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == '-' ? "\\-" : std::string(1, c);
  return text;
}

/// The text in each pair of backquotes of a table's first cell, in which "\\|" is "|".
std::vector<std::string> quoted_in_first_cell(const std::string& row) {
  std::vector<std::string> parts = {""};
  for (size_t at = 2; at < row.size() && row[at] != '|'; ++at) {
    if (row[at] == '\\') ++at;
    if (row[at] == '`') {
      parts.emplace_back();
    } else {
      parts.back() += row[at];
    }
  }
  std::vector<std::string> quoted;
  for (size_t i = 1; i < parts.size(); i += 2) quoted.push_back(parts[i]);
  return quoted;
}

}  // namespace

TEST_CASE("README lists 10 to 15 flags, with the values that ddprun knows") {
  std::ifstream readme(source_path("README.md"));
  std::vector<std::string> written;
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("| `--")) continue;
    for (std::string& flag : quoted_in_first_cell(line)) written.push_back(std::move(flag));
  }

  CHECK(written.size() >= 10);
  CHECK(written.size() <= 15);
  for (const std::string& flag : written) {
    INFO(flag);
    const cli::Flag* known = cli::find_flag(flag.substr(0, flag.find(' ')));
    REQUIRE(known != nullptr);
    const std::string space = known->value.empty() ? "" : " ";
    CHECK(flag == "--" + std::string(known->name) + space + std::string(known->value));
  }
}

TEST_CASE(
    "the short help shows each flag's values in full and the text beside or below, in 80 columns") {
  const std::string shown = printed({"-h"});
  CHECK(contains(shown, "\n    --max_restarts N|N/WINDOW    restarts after"));
  CHECK(contains(
      shown, "--nproc_per_node N|auto|gpu|cpu|gpu-or-1\n" + std::string(33, ' ') + "workers on"));
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("each manual page has all flags of its command, and --help prints the same text") {
  const auto [page, mode] = GENERATE(table<std::string, cli::Mode>(
      {{"", cli::Mode::run}, {"serve", cli::Mode::serve}, {"doctor", cli::Mode::doctor}}));
  const std::string source = cli::man_page(cli::page_of(page), "1");
  const std::string shown = page.empty() ? printed({"--help"}) : printed({page.c_str(), "--help"});
  INFO(page);

  CHECK(shown == cli::plain_text(cli::page_of(page)));
  for (const cli::Flag& flag : cli::flags()) {
    const std::string heading = in_roff(cli::item_of(flag).term);
    INFO(heading);
    CHECK(contains(source, ".TP\n\\fB" + heading + "\\fR\n") == flag.in(mode));
    if (!flag.in(mode)) continue;
    CHECK(contains(heading, in_roff("--" + std::string(flag.name))));
    CHECK((flag.alias.empty() || contains(heading, in_roff("--" + std::string(flag.alias)))));
    CHECK((flag.letter == '\0' || contains(heading, in_roff(std::string("-") + flag.letter))));
    CHECK(contains(source, std::string(flag.environment)));
  }
}

TEST_CASE("the pages are ASCII: a manual page needs no encoding") {
  for (const cli::CommandName& command : cli::command_names()) {
    const std::string source = cli::man_page(cli::page_of(command.page), "1");
    INFO(source);
    CHECK(std::ranges::all_of(source, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  }
}

TEST_CASE("ddprun's page names each variable that a worker gets") {
  const std::string page = cli::plain_text(cli::page_of(""));
  const std::string dry_run = printed({"--nproc_per_node", "2", "--dry_run", "train"});
  std::string line;
  for (const std::string heading : {"each rank: ", "\nrank 0: "}) {
    const size_t begin = dry_run.find(heading) + heading.size();
    line += dry_run.substr(begin, dry_run.find('\n', begin) - begin) + " ";
  }

  size_t count = 0;
  for (size_t at = 0, equals; (equals = line.find('=', at)) != std::string::npos; ++count) {
    const std::string name = line.substr(at, equals - at);
    INFO(name);
    CHECK(contains(page, name));
    at = std::min(line.find(' ', equals), line.size() - 1) + 1;
  }
  CHECK(count > 15);
}

TEST_CASE("help on a topic prints that section of the page") {
  const std::string whole = printed({"--help"});
  for (const cli::Section& section : cli::page_of("").sections) {
    if (section.topic.empty()) continue;
    const std::string topic(section.topic);
    const std::string shown = printed({"help", topic.c_str()});
    INFO(topic);
    CHECK(shown.starts_with(section.title + ":\n"));
    CHECK(contains(whole, "\n" + shown));
    CHECK(contains(printed({"help"}), topic));
  }
  CHECK(printed({"help", "exit_codes"}) == printed({"help", "exit-codes"}));
}

TEST_CASE("help on a flag, by any of its names, prints its item of the page") {
  const std::string item = printed({"help", "redirects"});
  CHECK(item.starts_with("  --redirects, --redirect, -r MASK\n"));
  CHECK(contains(printed({"--help"}), "\n" + item));
  for (const char* name : {"--redirects", "redirect", "-r"}) {
    CHECK(printed({"help", name}) == item);
  }
  for (const cli::Flag& flag : cli::flags()) {
    const std::string name(flag.name);
    INFO(name);
    CHECK_FALSE(printed({"help", name.c_str()}).empty());
  }
}

TEST_CASE("help on a command prints that command's help") {
  for (const char* command : {"serve", "doctor", "secret", "manifest"}) {
    CHECK(printed({"help", command}) == printed({command, "--help"}));
  }
  for (const cli::CommandName& command : cli::command_names()) {
    const std::string name(command.name);
    const std::string shown = printed({"help", name.c_str()});
    INFO(shown);
    CHECK(contains(shown, name));
    CHECK(contains(printed({"help"}), name + " "));
  }
  CHECK(printed({"help", "help"}) == printed({"help"}));
}

TEST_CASE("help on an unknown topic is refused with the topic that was probably meant") {
  CHECK(refusal({"help", "rendevous"}) ==
        "no help on 'rendevous' (a program called help is run as ddprun ./help); did you mean "
        "rendezvous?");
  CHECK(contains(refusal({"help", "stauts"}), "did you mean status?"));
  CHECK(contains(refusal({"help", "nproc"}), "did you mean nproc_per_node?"));
  CHECK(contains(refusal({"help", "xyzzy"}), "; ddprun help lists the topics"));
  CHECK(contains(refusal({"help", "lease", "x"}), "takes one topic, but got 'x'"));
  CHECK(contains(refusal({"help", "--man", "x"}), "there is no manual page x"));
  CHECK(job({"./help"}).command == std::vector<std::string>{"./help"});
  CHECK(job({"--", "help", "me"}).command == std::vector<std::string>{"help", "me"});
}

TEST_CASE("the page of a command that another page describes refers to that page") {
  CHECK(printed({"help", "--man", "ddprun-stacks"}) == ".so man1/ddprun-status.1\n");
  CHECK(contains(printed({"help", "--man", "ddprun"}), ".TH \"DDPRUN\" \"1\""));
  CHECK(contains(printed({"help", "--man", "ddprun-serve"}), ".TH \"DDPRUN\\-SERVE\" \"1\""));
}

TEST_CASE("the version says what was built, without paths") {
  const std::string text = printed({"--version"});
  INFO(text);

  CHECK(std::ranges::count(text, '\n') == 4);
  CHECK(contains(text, "\nbackends of ddp: cpu"));
  CHECK(contains(text, "Boost 1."));
  CHECK_FALSE(contains(text, "/"));
}
