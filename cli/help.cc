// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/pages.h"
#include "cli/usage_error.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kManPage = "--man";
constexpr std::string_view kPagePrefix = "ddprun-";
constexpr size_t kNameWidth = 10;  // of a command, with two spaces

/// The page of a command such as "serve".
std::optional<Page> command_page(std::string_view name) {
  for (const CommandName& command : command_names()) {
    if (command.name == name) return page_of(command.page);
  }
  return std::nullopt;
}

/// "exit_codes" is written for "exit-codes", too.
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

std::string overview() {
  Page page = page_of("");
  std::string commands;
  for (const CommandName& command : command_names()) {
    std::string name(command.name);
    name.resize(kNameWidth, ' ');
    commands.append("    ").append(name).append(command.summary).append("\n");
  }
  commands.pop_back();
  std::string topics =
      "ddprun help TOPIC shows the help of a command, of a flag such as "
      "max_restarts, or of one of these:";
  for (const std::string& topic : headings()) {
    topics.append(topics.ends_with(':') ? " " : ", ").append(topic);
  }
  page.sections = {{"", "Commands", std::move(commands)},
                   {"", "Topics", topics + ". ddprun --help shows everything."}};
  return plain_text(page);
}

Error unknown_topic(const std::string& topic) {
  std::vector<std::string> names = headings();
  for (const CommandName& command : command_names()) names.emplace_back(command.name);
  for (const Flag& flag : flags()) names.emplace_back(flag.name);
  return usage_error("no help on '" + topic + "' (a program called help is run as ddprun ./help)" +
                     did_you_mean(suggest(topic, names), "ddprun help lists the topics"));
}

/// `name`: "ddprun", "ddprun-serve". A command that is on another's page refers to that.
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

Result<std::string> help_output(std::span<const char* const> words) {
  if (words.empty() || words.front() == std::string_view("--help")) return overview();
  const std::string topic = words.front();
  if (topic == kManPage && words.size() == 2) return source_of_man_page(words[1]);
  if (words.size() > 1) {
    return usage_error("ddprun help takes one topic, but got '" + std::string(words[1]) +
                       "', too; a program called help is run as ddprun ./help");
  }
  if (topic == "help") return overview();
  if (const std::optional<Page> page = command_page(topic)) return plain_text(*page);
  if (const std::optional<std::string> section = section_text(topic)) return *section;
  if (const std::optional<std::string> flag = flag_text(topic)) return *flag;
  return unknown_topic(topic);
}

}  // namespace ddprun::cli
