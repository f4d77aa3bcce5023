// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/line/config.h"
#include "cli/line/flags.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

/// A value that is only words; digits may also be written as a number.
OrderedJson choices(const std::vector<std::string>& words) {
  OrderedJson all = OrderedJson::array();
  for (const std::string& word : words) {
    all.push_back(word);
    int number = 0;
    const char* end = word.data() + word.size();
    if (std::from_chars(word.data(), end, number).ptr == end) all.push_back(number);
  }
  return all;
}

OrderedJson schema_of(const Flag& flag) {
  OrderedJson schema = {{"description", flag.help}};
  if (flag.value.empty()) {
    schema["type"] = "boolean";
    return schema;
  }
  const std::vector<std::string> words = literal_values(flag.value);
  if (std::ssize(words) == 1 + std::ranges::count(flag.value, '|')) {
    schema["enum"] = choices(words);
    if (flag.may_be_alone()) schema["enum"].push_back(true);
    return schema;
  }
  schema["type"] = {"string", "number", "array"};
  if (flag.may_be_alone()) schema["type"].push_back("boolean");
  schema["items"] = {{"type", {"string", "number"}}};
  return schema;
}

/// Matches the name with dashes, too, and the alias.
std::string pattern_of(const Flag& flag) {
  std::string pattern = "^(" + std::string(flag.name);
  if (!flag.alias.empty()) pattern.append("|").append(flag.alias);
  pattern += ")$";
  for (size_t at = pattern.find('_'); at != std::string::npos; at = pattern.find('_', at)) {
    pattern.replace(at, 1, "[-_]");
    at += std::string_view("[-_]").size();
  }
  return pattern;
}

}  // namespace

std::string config_schema() {
  OrderedJson names, patterns;
  for (const Flag& flag : flags()) {
    if (!is_for_files(flag)) continue;
    const std::string name(flag.name);
    names[name] = schema_of(flag);
    const std::string pattern = pattern_of(flag);
    if (pattern != "^(" + name + ")$") patterns[pattern] = {{"$ref", "#/properties/" + name}};
  }
  const OrderedJson schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                              {"title", std::string(kConfigName)},
                              {"description", "Flags of ddprun; see docs/config.md."},
                              {"type", "object"},
                              {"additionalProperties", false},
                              {"properties", std::move(names)},
                              {"patternProperties", std::move(patterns)}};
  return schema.dump(1) + "\n";
}

}  // namespace ddprun::cli
