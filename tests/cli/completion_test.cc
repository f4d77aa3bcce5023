// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <algorithm>

#include "cli/completion_words.h"
#include "cli/flags.h"
#include "cli/manifest_line.h"
#include "cli/pages.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"

using namespace ddprun;
using tests::contains;

namespace {

using Value = cli::CompletedOption::Value;

cli::CompletedCommand command_of(const std::string& name) {
  for (cli::CompletedCommand& command : cli::completed_commands()) {
    if (command.name == name) return std::move(command);
  }
  FAIL("no command " << name);
  return {};
}

/// nullptr: it has none.
const cli::CompletedOption* option_in(const cli::CompletedCommand& command,
                                      const std::string& name) {
  const auto found = std::ranges::find_if(command.options, [&](const cli::CompletedOption& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("each command completes the flags that it accepts, by all their names") {
  const cli::CompletedCommand own = command_of(""), serve = command_of("serve"),
                              doctor = command_of("doctor"), manifest = command_of("manifest");
  for (const cli::Flag& flag : cli::flags()) {
    std::vector<std::string> names = {"--" + std::string(flag.name)};
    if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
    if (flag.letter != '\0') names.push_back(std::string("-") + flag.letter);
    for (const std::string& name : names) {
      INFO(name);
      CHECK((option_in(own, name) != nullptr) == flag.in(cli::Mode::run));
      CHECK((option_in(serve, name) != nullptr) == flag.in(cli::Mode::serve));
      CHECK((option_in(doctor, name) != nullptr) == flag.in(cli::Mode::doctor));
      const bool is_help = flag.name == cli::kHelp && name != "-h";
      CHECK((option_in(manifest, name) != nullptr) == (cli::is_for_pods(flag) || is_help));
      const cli::CompletedOption* option = option_in(own, name);
      if (option != nullptr) {
        CHECK((option->value == Value::none) == (flag.value.empty() || flag.may_be_alone()));
      }
    }
  }
  CHECK(option_in(command_of("status"), "--json") != nullptr);
  CHECK(option_in(command_of("logs"), "-f") != nullptr);
}

TEST_CASE("each script has all commands and flags") {
  const char* shell = GENERATE("bash", "zsh", "fish");
  const std::string script = printed({"--print_completion", shell});
  INFO(shell);

  CHECK(script == printed({"--print-completion", shell, "train"}));
  for (const cli::Flag& flag : cli::flags()) {
    INFO(flag.name);
    CHECK(contains(script, std::string(flag.name)));
    CHECK(contains(script, std::string(flag.alias)));
  }
  for (const cli::CommandName& command : cli::command_names()) {
    CHECK(contains(script, std::string(command.name)));
  }
}

TEST_CASE("fish completes programs where one follows, and no files where none do") {
  const std::string script = printed({"--print_completion", "fish"});
  const std::string line = "complete -c ddprun -n '__ddprun_at ";
  CHECK(contains(script, line + "run' -a '(__fish_complete_command)'\n"));
  CHECK(contains(script, line + "serve' -f\n"));
}

TEST_CASE("a flag completes the values that are words, or files") {
  const cli::CompletedCommand own = command_of("");
  const auto words = [&](const std::string& name) { return option_in(own, name)->words; };

  CHECK(words("--gpu_bind") == std::vector<std::string>{"all", "isolate"});
  CHECK(words("--nproc_per_node") == std::vector<std::string>{"auto", "gpu", "cpu", "gpu-or-1"});
  CHECK(words("--log_level").size() == 5);
  CHECK(words("--max_restarts").empty());
  CHECK(option_in(own, "--events")->value == Value::file);
  CHECK(option_in(own, "--log_dir")->value == Value::directory);
  CHECK(option_in(own, "--nnodes")->value == Value::other);
  CHECK(option_in(own, "--standalone")->value == Value::none);
}

TEST_CASE("each value that is completed is one that the flag accepts") {
  const cli::CompletedCommand doctor = command_of("doctor");
  for (const cli::Flag& flag : cli::flags()) {
    const cli::CompletedOption* option = option_in(doctor, "--" + std::string(flag.name));
    if (option == nullptr) continue;
    for (const std::string& word : option->words) {
      INFO(flag.name << " " << word);
      cli::RawOptions raw;
      CHECK(static_cast<bool>(flag.set(word, raw)));
    }
  }
}

TEST_CASE("completions are for the shells that there are scripts for") {
  CHECK(refusal({"--print_completion", "tcsh"}) ==
        "--print_completion expects bash, zsh or fish, not 'tcsh'");
  CHECK(contains(refusal({"serve", "--print_completion", "bash"}), "is not for ddprun serve"));
}

TEST_CASE("the text of a menu is the first sentence") {
  CHECK(cli::first_sentence("One. Two.") == "One");
  CHECK(cli::first_sentence("Ends in .py.") == "Ends in .py");
  CHECK(cli::first_sentence("None") == "None");
}
