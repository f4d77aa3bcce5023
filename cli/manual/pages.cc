// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/pages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/line/flags.h"
#include "cli/line/usage_error.h"
#include "cli/line/verb_line.h"
#include "cli/manifest/manifest.h"
#include "cli/manual/page_texts.h"

namespace ddprun::cli {
namespace {

constexpr auto kCommandNames = std::to_array<CommandName>({
    {"serve", "serve", "runs only the rendezvous of a job"},
    {"doctor", "doctor", "checks whether a job would work"},
    {"secret", "secret", "makes the secret of a job"},
    {"manifest", "manifest", "prints the Kubernetes manifest of a job"},
    {"ls", kVerbsPage, "lists the running jobs of this host"},
    {"status", kVerbsPage, "shows what a running job does"},
    {"stacks", kVerbsPage, "shows where the workers of a job are"},
    {"watch", kVerbsPage, "shows what a job does, updated each second"},
    {"logs", kVerbsPage, "shows the output of a rank"},
    {"stop", kVerbsPage, "stops a running job"},
    {"launch", "", "as torch.distributed.launch: passes --local-rank=N to workers"},
    {"help", "", "shows a part of the manual"},
});

struct Heading {
  std::string_view topic;
  std::string_view title;
};

Heading heading_of(Group group) {
  switch (group) {
    case Group::program:
      return {"program", "Program"};
    case Group::workers:
      return {"workers", "Workers"};
    case Group::rendezvous:
      return {"rendezvous", "Rendezvous"};
    case Group::failures:
      return {"failures", "Failures"};
    case Group::output:
      return {"output", "Output"};
    case Group::torchrun:
      return {"torchrun", "Compatibility with torchrun"};
    case Group::information:
      return {"information", "Information"};
  }
  return {};
}

std::string description_of(const Flag& flag) {
  std::string text(flag.help);
  const bool has_default = !flag.fallback.empty();
  if (!has_default && flag.environment.empty()) return text;
  text += " [";
  if (has_default) text.append("default: ").append(flag.fallback);
  if (!flag.environment.empty()) text.append(has_default ? "; " : "").append(flag.environment);
  if (!flag.second_environment.empty()) text.append(", ").append(flag.second_environment);
  return text += ']';
}

/// The flags that `mode` accepts, with a section for each group.
void append_flags(std::vector<Section>& sections, Mode mode) {
  const Flag* last = nullptr;
  for (const Flag& flag : flags()) {
    if (!flag.in(mode)) continue;
    if (last == nullptr || last->group != flag.group) {
      const Heading heading = heading_of(flag.group);
      sections.push_back({heading.topic, std::string(heading.title), ""});
    }
    sections.back().items.push_back(item_of(flag));
    last = &flag;
  }
}

std::vector<Item> items(std::span<const ItemText> texts) {
  std::vector<Item> all;
  for (const auto& [term, text] : texts) all.push_back({std::string(term), std::string(text)});
  return all;
}

std::vector<std::string> lines(std::span<const std::string_view> texts) {
  return {texts.begin(), texts.end()};
}

Section see_also(std::string_view name) {
  std::string text = name.empty() ? "" : "ddprun(1)";
  std::string_view last = name;
  for (const CommandName& command : command_names()) {
    if (command.page.empty() || std::exchange(last, command.page) == command.page) continue;
    if (command.page == name) continue;
    text.append(text.empty() ? "" : ", ").append("ddprun-").append(command.page).append("(1)");
  }
  return {"", "See also", text};
}

Page page_of_ddprun() {
  Page page{"ddprun",
            "starts the processes of a distributed training job and watches them",
            lines(kUsage),
            {}};
  page.sections.push_back({"", "", std::string(kDescription)});
  append_flags(page.sections, Mode::run);
  page.sections.push_back({"environment", "Environment of the workers", std::string(kEnvironment),
                           items(kWorkerVariables)});
  page.sections.push_back(
      {"variables", "Variables that ddprun reads", std::string(kVariables), items(kReadVariables)});
  page.sections.push_back({"exit-codes", "Exit code", "", items(kExitCodes)});
  page.sections.push_back({"examples", "Examples", std::string(kExamples)});
  return page;
}

Page page_of_serve() {
  Page page{"ddprun-serve",
            "runs only the rendezvous of a job",
            {"ddprun serve --rdzv_endpoint [HOST]:PORT [options]"},
            {{"", "", std::string(kServeDescription)}}};
  append_flags(page.sections, Mode::serve);
  page.sections.push_back({"exit-codes", "Exit code", "", items(kExitCodes)});
  return page;
}

Page page_of_doctor() {
  Page page{"ddprun-doctor",
            "checks whether a job would work",
            {"ddprun doctor [options] [program [args...]]"},
            {{"", "", std::string(kDoctorDescription)}}};
  append_flags(page.sections, Mode::doctor);
  return page;
}

Page page_of_secret() {
  return {"ddprun-secret",
          "makes the secret of a job",
          {"ddprun secret [FILE]"},
          {{"", "", std::string(kSecretDescription)}}};
}

Page page_of_manifest() {
  Section options{"", "Options", std::string(kManifestOptionsText)};
  for (const auto& [name, value, help] : kManifestOptions) {
    options.items.push_back({std::string(name).append(" ").append(value), std::string(help)});
  }
  return {"ddprun-manifest",
          "prints the Kubernetes manifest of a job",
          lines(kManifestUsage),
          {{"", "", std::string(kManifestDescription)}, std::move(options)}};
}

Page page_of_verbs() {
  Page page{"ddprun-status", "asks a running job", {}, {}};
  Section commands{"", "Commands", ""};
  for (const VerbText& verb : verb_texts()) {
    std::string line = "ddprun " + std::string(verb.name);
    if (!verb.arguments.empty()) line.append(" ").append(verb.arguments);
    page.usage.push_back(line);
    commands.items.push_back({std::string(verb.name), std::string(verb.help)});
  }
  page.sections.push_back({"", "", std::string(kVerbsDescription)});
  page.sections.push_back(std::move(commands));
  return page;
}

}  // namespace

std::span<const CommandName> command_names() {
  return kCommandNames;
}

Item item_of(const Flag& flag) {
  std::string term = spelled(flag);
  if (!flag.alias.empty()) term.append(", --").append(flag.alias);
  if (flag.letter != '\0') term.append(", -") += flag.letter;
  const std::string value(flag.value);
  if (!value.empty()) term += flag.may_be_alone() ? "[=" + value + "]" : " " + value;
  return {term, description_of(flag)};
}

Page page_of(std::string_view name) {
  Page page = name == "serve"      ? page_of_serve()
              : name == "doctor"   ? page_of_doctor()
              : name == "secret"   ? page_of_secret()
              : name == "manifest" ? page_of_manifest()
              : name == kVerbsPage ? page_of_verbs()
                                   : page_of_ddprun();
  page.sections.push_back(see_also(name));
  return page;
}

namespace {

constexpr std::string_view kManPage = "--man";
constexpr std::string_view kSchema = "--schema";
constexpr std::string_view kPagePrefix = "ddprun-";
constexpr size_t kNameWidth = 10;  // of a command, with two spaces
constexpr size_t kFlagWidth = 29;  // of a flag and its value, likewise

/// The page of a command such as "serve".
std::optional<Page> command_page(std::string_view name) {
  for (const CommandName& command : command_names()) {
    if (command.name == name) return page_of(command.page);
  }
  return std::nullopt;
}

/// Accepts "exit_codes" for "exit-codes".
std::string with_dashes(std::string_view written) {
  std::string name(written);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<std::string> section_text(std::string_view topic) {
  for (const Section& section : page_of("").sections) {
    if (!section.topic.empty() && section.topic == with_dashes(topic)) return plain_text(section);
  }
  return std::nullopt;
}

std::optional<std::string> flag_text(std::string_view topic) {
  const Flag* flag =
      find_flag(topic.starts_with('-') ? std::string(topic) : "--" + std::string(topic));
  if (flag == nullptr) return std::nullopt;
  return plain_text(Section{"", "", "", {item_of(*flag)}});
}

std::vector<std::string> headings() {
  std::vector<std::string> topics;
  for (const Section& section : page_of("").sections) {
    if (!section.topic.empty()) topics.emplace_back(section.topic);
  }
  return topics;
}

/// Appends a line of a list: the name in a column, then the text; below the name if that is longer.
void append_line(std::string& lines, std::string name, size_t width, std::string_view text) {
  constexpr std::string_view kIndent = "    ";
  if (name.size() >= width)
    name.append("\n").append(kIndent).append(width, ' ');
  else
    name.resize(width, ' ');
  lines.append(lines.empty() ? "" : "\n").append(kIndent).append(name).append(text);
}

Error unknown_topic(const std::string& topic) {
  std::vector<std::string> names = headings();
  for (const CommandName& command : command_names()) names.emplace_back(command.name);
  for (const Flag& flag : flags()) names.emplace_back(flag.name);
  std::optional<std::string> near = suggest(topic, names);
  if (!near) near = name_that_begins_with(topic, names);
  return usage_error("no help on '" + topic + "' (a program called help is run as ddprun ./help)" +
                     did_you_mean(near, "ddprun help lists the topics"));
}

/// `name`: "ddprun", "ddprun-serve". If a command is on another's page, refers to that page.
Result<std::string> source_of_man_page(std::string_view name) {
  if (name == "ddprun") return man_page(page_of(""), DDPRUN_VERSION);
  const std::string_view command =
      name.starts_with(kPagePrefix) ? name.substr(kPagePrefix.size()) : name;
  const std::optional<Page> page = command_page(command);
  if (!page) return usage_error("there is no manual page " + std::string(name));
  if (page->name == name) return man_page(*page, DDPRUN_VERSION);
  return ".so man1/" + page->name + ".1\n";
}

}  // namespace

std::string short_help() {
  Page page = page_of("");
  std::string most_used;
  for (const auto& [name, text] : kMostUsedFlags) {
    append_line(most_used, item_of(*find_flag("--" + std::string(name))).term, kFlagWidth, text);
  }
  std::string commands;
  for (const CommandName& command : command_names()) {
    append_line(commands, std::string(command.name), kNameWidth, command.summary);
  }
  std::string topics =
      "ddprun help TOPIC shows the help of a command, of a flag such as "
      "max_restarts, or of one of these:";
  for (const std::string& topic : headings()) {
    topics.append(topics.ends_with(':') ? " " : ", ").append(topic);
  }
  page.sections = {{"", "Most used", std::move(most_used)},
                   {"", "Commands", std::move(commands)},
                   {"", "Topics", topics + "."},
                   {"", "Examples", std::string(kShortExamples)}};
  return plain_text(page);
}

Result<std::string> help_output(std::span<const char* const> words) {
  if (words.empty() || asks_for_help(words.front())) return short_help();
  const std::string topic = words.front();
  if (topic == kManPage && words.size() == 2) return source_of_man_page(words[1]);
  if (topic == kSchema && words.size() == 1) return config_schema();
  if (words.size() > 1) {
    return usage_error("ddprun help takes one topic, but got '" + std::string(words[1]) +
                       "', too; a program called help is run as ddprun ./help");
  }
  if (topic == "help") return short_help();
  if (const std::optional<Page> page = command_page(topic)) return plain_text(*page);
  if (const std::optional<std::string> section = section_text(topic)) return *section;
  if (const std::optional<std::string> flag = flag_text(topic)) return *flag;
  return unknown_topic(topic);
}

}  // namespace ddprun::cli
