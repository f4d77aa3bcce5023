// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_sources.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/worker/worker_env.h"
#include "base/text.h"
#include "cli/line/config.h"
#include "cli/line/usage_error.h"
#include "cli/line/values.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kConfigVariable = "DDPRUN_CONFIG";

/// A file's flag, and the flag that overrides it if it is given elsewhere.
struct Rival {
  std::string_view flag;
  std::string_view other;
};
constexpr auto kRivals = std::to_array<Rival>({
    {"rdzv_endpoint", "master_addr"},
    {"rdzv_endpoint", "master_port"},
    {"hosts", "hostfile"},
    {"hostfile", "hosts"},
    {"prefix", "no_prefix"},
    {"no_prefix", "prefix"},
    {"quiet", "log_level"},
    {"log_level", "quiet"},
    {"standalone", "nnodes"},
    {"standalone", "hosts"},
    {"standalone", "hostfile"},
    {"standalone", "rdzv_endpoint"},
    {"standalone", "master_addr"},
});

/// The environment variable that sets a flag; value is nullptr if there is none.
struct FlagVariable {
  std::string_view name;
  const char* value = nullptr;
};
FlagVariable find_flag_variable(const Flag& flag, const std::vector<std::string>& environment) {
  for (const std::string_view name : {flag.environment, flag.second_environment}) {
    const char* value = name.empty() ? nullptr : agent::find_variable(environment, name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

bool gives(GivenFlags given, const Flag& flag) {
  return std::find(given.begin(), given.end(), &flag) != given.end();
}

/// Whether the command line or the environment sets this flag, or its rival.
bool is_overridden(const Flag& flag, GivenFlags given, const Host& host) {
  const auto is_set = [&](const Flag& other) {
    return gives(given, other) || find_flag_variable(other, host.environment).value != nullptr;
  };
  return is_set(flag) || std::any_of(kRivals.begin(), kRivals.end(), [&](const Rival& rival) {
           return rival.flag == flag.name && is_set(*find_flag("--" + std::string(rival.other)));
         });
}

/// The text of a setting: "--nnodes 2"; empty: a switch is off.
std::string setting(const Flag& flag, const std::string& value) {
  if (flag.value.empty()) return parse_switch(value).value_or(true) ? spelled(flag) : "";
  return spelled(flag) + " " + shell_word(value);
}

struct Config {
  std::string name;
  std::string text;
};

/// If the user named a file, it must exist. If a found file is not used, a warning follows.
Result<std::optional<Config>> find_config(const std::optional<std::string>& named, const Host& host,
                                          RawOptions& raw) {
  const char* variable = agent::find_variable(host.environment, kConfigVariable);
  const bool by_variable = !named && variable != nullptr && *variable != '\0';
  Config config{named ? *named : by_variable ? variable : std::string(kConfigName), ""};
  if (config.name == kNoConfig) return std::optional<Config>();
  Result<std::optional<std::string>> text = host.read_config(config.name, named || by_variable);
  if (!text && (named || by_variable)) {
    return usage_error((named ? "--config " : std::string(kConfigVariable) + "=") + config.name +
                       ": " + text.error().message);
  }
  if (!text) {
    raw.unread_config = "./" + config.name + " is not read: it " + text.error().message +
                        "; to use it anyway: --config " + config.name;
    return std::optional<Config>();
  }
  if (!*text) return std::optional<Config>();
  config.text = std::move(**text);
  return std::optional(std::move(config));
}

/// Keeps the entry as options of a command line, for agents on other hosts.
void hand_on(const ConfigEntry& entry, RawOptions& raw) {
  if (entry.flag->value.empty() && entry.value == "0") return;
  raw.config_options.push_back(spelled(*entry.flag));
  if (!entry.flag->value.empty()) raw.config_options.push_back(entry.value);
}

}  // namespace

Result<> set_option(const Flag& flag, const std::string& value, const std::string& source,
                    RawOptions& raw) {
  const SetResult result = flag.set(value, raw);
  raw.given.insert(flag.name);
  if (result) return {};
  if (!result.reason().empty()) return usage_error(source + " " + result.reason());
  return usage_error(source + " expects " + std::string(flag.expects) + ", not '" + value + "'");
}

Result<> set_from_config(const std::optional<std::string>& named, GivenFlags given, Mode mode,
                         const Host& host, RawOptions& raw) {
  const Result<std::optional<Config>> config = find_config(named, host, raw);
  if (!config) return config.error();
  if (!*config) return {};
  const auto entries = parse_config((*config)->text, (*config)->name);
  if (!entries) return entries.error();
  for (const bool yielding : {true, false}) {
    for (const ConfigEntry& entry : *entries) {
      const Flag& flag = *entry.flag;
      if (flag.yields() != yielding || !flag.in(mode) || is_overridden(flag, given, host)) continue;
      const Result<> set = set_option(flag, entry.value, entry.place + ": " + entry.key, raw);
      if (!set) return set.error();
      raw.settings.push_back({setting(flag, entry.value), entry.place});
      hand_on(entry, raw);
    }
  }
  return {};
}

/// CLI11 could read the environment, but only this process's, and its errors would name the flag
/// instead of the variable.
Result<> set_from_environment(GivenFlags given, Mode mode, const Host& host, RawOptions& raw) {
  for (const bool yielding : {true, false}) {
    for (const Flag& flag : flags()) {
      if (flag.yields() != yielding || !flag.in(mode) || gives(given, flag)) continue;
      const FlagVariable variable = find_flag_variable(flag, host.environment);
      if (variable.value == nullptr) continue;
      const std::string name(variable.name);
      const Result<> set = set_option(flag, variable.value, name, raw);
      if (!set) return set.error();
      raw.settings.push_back({setting(flag, variable.value), name});
    }
  }
  return {};
}

std::string settings_text(const RawOptions& raw) {
  std::string text;
  for (const auto& [value, source] : raw.settings) {
    if (value.empty()) continue;
    text.append(text.empty() ? "settings: " : ", ").append(value);
    text.append(" (").append(source).append(")");
  }
  return text;
}

}  // namespace ddprun::cli
