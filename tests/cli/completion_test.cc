// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <algorithm>

#include "cli/line/flags.h"
#include "cli/manifest_line.h"
#include "cli/manual/pages.h"
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

/// nullptr if the command has no such option.
const cli::CompletedOption* option_in(const cli::CompletedCommand& command,
                                      const std::string& name) {
  const auto found = std::ranges::find_if(command.options, [&](const cli::CompletedOption& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("each command completes all names of the flags that it accepts") {
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
        CHECK((option->value == Value::none) == flag.value.empty());
      }
    }
  }
  CHECK(option_in(command_of("status"), "--json") != nullptr);
  CHECK(option_in(command_of("logs"), "-f") != nullptr);
}

TEST_CASE("each shell's script asks the ddprun that is on the command line") {
  const char* shell = GENERATE("bash", "zsh", "fish");
  const std::string script = printed({"--print_completion", shell});
  INFO(shell);

  CHECK(contains(script, " __complete "));
  CHECK(script == printed({"--print-completion", shell, "train"}));
}

TEST_CASE("ddprun answers in lines: what the shell adds, the text before, the typed text, words") {
  const auto answer = [](const char* line) { return printed({"__complete", line}); };

  CHECK(answer("ddprun --gpu_bind=i") ==
        "nothing\n--gpu_bind=\n--gpu_bind=i\n--gpu_bind=isolate\n");
  CHECK(answer("ddprun --mpi pm") == "program\n\npm\npmix\npmi1\n");
  CHECK(answer("ddprun --mpi --mpi_f")
            .ends_with("\n--mpi_ft\tA rank of Open MPI 5 that is lost does not end the job: ddprun "
                       "notifies the others, which may continue without it by ULFM\n"));
  CHECK(answer("ddprun --events=e") == "file\n--events=\n--events=e\n");
  CHECK(answer("ddprun --log_dir ") == "directory\n\n\n");
  CHECK(answer("ddprun -r 3 python tr") == "argument 3\n\ntr\n");
  CHECK(answer("ddprun serv") == "program\n\nserv\nserve\truns only the rendezvous of a job\n");
  CHECK(answer("ddprun") == answer("ddprun "));
}

TEST_CASE("the words before it decide how a word is completed") {
  using Shell = cli::Completion::Shell;
  const auto shell = [](const std::vector<std::string>& words) {
    return cli::complete(words).shell;
  };

  CHECK(shell({""}) == Shell::program);
  CHECK(shell({"--standalone", "tr"}) == Shell::program);
  CHECK(shell({"--max_restarts", "tr"}) == Shell::nothing);
  CHECK(shell({"--max-restarts", "3", "tr"}) == Shell::program);
  CHECK(shell({"--max_restarts=3", "tr"}) == Shell::program);
  CHECK(shell({"--web", "tr"}) == Shell::program);
  CHECK(shell({"--mpi", "tr"}) == Shell::program);
  CHECK(shell({"--mpi", "pmix", "tr"}) == Shell::program);
  CHECK(shell({"--mpi", "train.py", "tr"}) == Shell::argument);
  CHECK(shell({"--", "tr"}) == Shell::program);
  CHECK(shell({"--", "train.py", "--max_r"}) == Shell::argument);
  CHECK(shell({"train.py", ""}) == Shell::argument);
  CHECK(shell({"launch", "train.py", ""}) == Shell::argument);
  CHECK(shell({"manifest", "job", "--image", "x", "tr"}) == Shell::program);
  CHECK(shell({"manifest", ""}) == Shell::nothing);
  CHECK(shell({"status", "7", ""}) == Shell::nothing);
  CHECK(shell({"secret", ""}) == Shell::file);
  CHECK(cli::complete({"--", "train.py", "x"}).program == 2);
  CHECK(cli::complete({"--standalone", "serve", "--m"}).words.empty());
}

TEST_CASE("ddprun splits a line into words as a shell does") {
  using Texts = std::vector<std::string>;

  CHECK(cli::words_of("ddprun ") == Texts{"ddprun", ""});
  CHECK(cli::words_of(" ddprun  --a=b c") == Texts{"ddprun", "--a=b", "c"});
  CHECK(cli::words_of("a 'b c' \"d \\\" e\" f\\ g ''") == Texts{"a", "b c", "d \" e", "f g", ""});
  CHECK(cli::words_of("a 'b c") == Texts{"a", "b c"});
  CHECK(cli::words_of("a \\") == Texts{"a", "\\"});
  CHECK(cli::words_of("") == Texts{""});
}

TEST_CASE("a flag completes its values if they are words or files") {
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

TEST_CASE("a flag accepts each value that it completes") {
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

TEST_CASE("completion is refused for a shell without a script") {
  CHECK(refusal({"--print_completion", "tcsh"}) ==
        "--print_completion expects bash, zsh or fish, not 'tcsh'");
  CHECK(contains(refusal({"serve", "--print_completion", "bash"}), "is not for ddprun serve"));
}

TEST_CASE("a menu shows the first sentence of a text") {
  CHECK(cli::first_sentence("One. Two.") == "One");
  CHECK(cli::first_sentence("Ends in .py.") == "Ends in .py");
  CHECK(cli::first_sentence("None") == "None");
}
