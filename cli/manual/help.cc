// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/help.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/line/flags.h"
#include "cli/line/usage_error.h"
#include "cli/manual/page_texts.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kManPage = "--man";
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
