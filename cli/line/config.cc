// SPDX-License-Identifier: Apache-2.0
#include "cli/line/config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_SIMD 0
#include <toml++/toml.h>

#include "cli/line/usage_error.h"

namespace ddprun::cli {
namespace {

constexpr std::array kNotForFiles = std::to_array<std::string_view>(
    {"bench", "config", "dry_run", "json", kHelp, kVersion, kPrintCompletion});

std::string with_underscores(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// A flag by its long name or its alias; not by its letter.
const Flag* find_key(std::string_view key) {
  if (key.find('=') != std::string_view::npos) return nullptr;
  return find_flag("--" + std::string(key));
}

std::string unknown_key(std::string_view key) {
  std::vector<std::string> names;
  for (const Flag& flag : flags()) {
    if (is_for_files(flag)) names.emplace_back(flag.name);
  }
  return "no flag is called " + std::string(key) +
         did_you_mean(suggest(with_underscores(key), names), "ddprun --help lists all flags");
}

/// The text of a scalar; nullopt: it is no scalar that a flag could have.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) {
    std::array<char, 32> digits{};
    // No to_chars: it would make each start load the mathematics library.
    std::snprintf(digits.data(), digits.size(), "%.15g", *number);
    return std::string(digits.data());
  }
  return std::nullopt;
}

/// Its elements between commas; nullopt: an element is no scalar, or contains a comma.
std::optional<std::string> list_text(const toml::array& array) {
  std::string list;
  for (const toml::node& node : array) {
    const std::optional<std::string> text = scalar_text(node);
    if (!text || text->find(',') != std::string::npos) return std::nullopt;
    list.append(list.empty() ? "" : ",").append(*text);
  }
  return list;
}

std::optional<std::string> switch_text(const toml::node& node) {
  const auto on = node.value_exact<bool>();
  if (!on) return std::nullopt;
  return *on ? "1" : "0";
}

std::optional<std::string> value_text(const Flag& flag, const toml::node& node) {
  if (flag.value.empty()) return switch_text(node);
  if (flag.may_be_alone() && node.value_exact<bool>() == true) return std::string(flag.left_out);
  if (const toml::array* array = node.as_array()) return list_text(*array);
  return scalar_text(node);
}

std::string wrong_type(const Flag& flag, std::string_view key, const toml::node& node) {
  const std::string name(key);
  if (node.is_array() && !flag.value.empty()) {
    return name +
           " expects strings or numbers without commas in its array; write a list with them "
           "as one string";
  }
  return name + " expects " +
         (flag.value.empty() ? "true or false" : "a string, a number or an array of them");
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Result<std::vector<ConfigEntry>> read(std::string_view text) {
    const toml::parse_result parsed = toml::parse(text, std::string_view(name_));
    if (!parsed) {
      return refusal(parsed.error().source(), std::string(parsed.error().description()));
    }
    for (const auto& [key, node] : parsed.table()) {
      if (const Result<> added = add(key, node); !added) return added.error();
    }
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return take_entries();
  }

 private:
  Error refusal(const toml::source_region& where, const std::string& sentence) const {
    return usage_error(place(where.begin.line) + ": " + sentence);
  }

  std::string place(toml::source_index line) const { return name_ + ":" + std::to_string(line); }

  Result<> add(const toml::key& key, const toml::node& node) {
    const auto& where = key.source();
    if (node.is_table()) {
      return refusal(
          where, std::string(key.str()) + " is a table: the file has flags alone, NAME = VALUE");
    }
    const Flag* flag = find_key(key.str());
    if (flag == nullptr) return refusal(where, unknown_key(key.str()));
    if (!is_for_files(*flag)) {
      return refusal(where, std::string(key.str()) + " works only on the command line");
    }
    std::optional<std::string> value = value_text(*flag, node);
    if (!value) return refusal(where, wrong_type(*flag, key.str(), node));
    if (value->find('\0') != std::string::npos) {
      return refusal(where, std::string(key.str()) + " has a zero byte, which no flag can have");
    }
    lines_.push_back({where.begin.line,
                      {flag, std::move(*value), place(where.begin.line), std::string(key.str())}});
    return {};
  }

  /// Errors: usage (two entries set the same flag).
  Result<std::vector<ConfigEntry>> take_entries() {
    std::vector<ConfigEntry> entries;
    for (auto& [line, entry] : lines_) {
      for (const ConfigEntry& earlier : entries) {
        if (earlier.flag != entry.flag) continue;
        return usage_error(entry.place + ": " + entry.key + " sets what " + earlier.key +
                           " sets at " + earlier.place);
      }
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  std::string name_;
  std::vector<std::pair<toml::source_index, ConfigEntry>> lines_;
};

}  // namespace

bool is_for_files(const Flag& flag) {
  return std::find(kNotForFiles.begin(), kNotForFiles.end(), flag.name) == kNotForFiles.end();
}

Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace ddprun::cli
