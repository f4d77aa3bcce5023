// SPDX-License-Identifier: Apache-2.0
#include "cli/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/suggest.h"
#include "cli/values.h"

namespace ddprun::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kMostAttempts = 10'000;

/// What the string said so far.
struct Conf {
  std::optional<milliseconds> join_timeout;
  std::optional<milliseconds> last_call;
  std::optional<milliseconds> interval;
  std::optional<int> attempts;
  std::optional<bool> is_host;
};

struct Key {
  std::string_view name;
  std::string_view wants;
  bool (*take)(std::string_view value, Conf& conf);
};

template <class T>
bool put(std::optional<T> value, std::optional<T>& target) {
  if (value) target = value;
  return value.has_value();
}

bool ignore(std::string_view, Conf&) {
  return true;
}

bool set_join_timeout(std::string_view value, Conf& conf) {
  return put(parse_time(value, kShortest), conf.join_timeout);
}

// clang-format off
constexpr std::array<Key, 11> kKeys = {{
    {"join_timeout", kWantsSomeTime, set_join_timeout},
    {"timeout", kWantsSomeTime, set_join_timeout},  // join_timeout in the words of "static"
    {"last_call_timeout", kWantsTime,
     [](std::string_view value, Conf& conf) { return put(parse_time(value), conf.last_call); }},
    {"keep_alive_interval", kWantsSomeTime,
     [](std::string_view value, Conf& conf) {
       return put(parse_time(value, kShortest), conf.interval);
     }},
    {"keep_alive_max_attempt", "a number, 1 to 10000",
     [](std::string_view value, Conf& conf) {
       return put(parse_count(value, 1, kMostAttempts), conf.attempts);
     }},
    {"is_host", "true or false",
     [](std::string_view value, Conf& conf) { return put(parse_truth(value), conf.is_host); }},
    {"close_timeout", "", ignore},
    {"heartbeat_timeout", "", ignore},
    {"read_timeout", "", ignore},
    {"store_type", "", ignore},
    {"use_libuv", "", ignore},
}};
// clang-format on

Error unknown_key(std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  const std::optional<std::string> near = suggest(name, names);
  std::string sentence = "has no key '" + std::string(name) + "'; ";
  if (near) return {Errc::usage, sentence + "did you mean " + *near + "?"};
  sentence += "it has ";
  for (const std::string& known : names) sentence += (known == names[0] ? "" : ", ") + known;
  return {Errc::usage, sentence};
}

Result<> parse_pair(std::string_view pair, Conf& conf) {
  const size_t equals = pair.find('=');
  if (equals == std::string_view::npos) {
    return Error{Errc::usage, "wants key=value, not '" + std::string(pair) + "'"};
  }
  const std::string_view name = trimmed(pair.substr(0, equals));
  const std::string_view value = trimmed(pair.substr(equals + 1));
  const auto key = std::find_if(kKeys.begin(), kKeys.end(),
                                [name](const Key& candidate) { return candidate.name == name; });
  if (key == kKeys.end()) return unknown_key(name);
  if (key->take(value, conf)) return {};
  return Error{Errc::usage, std::string(name) + " wants " + std::string(key->wants) + ", not '" +
                                std::string(value) + "'"};
}

}  // namespace

Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job) {
  Conf conf;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const Result<> taken = parse_pair(text.substr(begin, end - begin), conf);
    if (!taken) return taken.error();
    begin = end + 1;
  }
  job.join_timeout = conf.join_timeout.value_or(job.join_timeout);
  job.last_call = conf.last_call.value_or(job.last_call);
  job.heartbeat = conf.interval.value_or(job.heartbeat);
  if (conf.interval || conf.attempts) {  // where one is missing it is torchrun's
    const milliseconds interval = conf.interval.value_or(std::chrono::seconds(5));
    job.lease = std::min(kLongest, interval * conf.attempts.value_or(3));
  }
  if (conf.is_host) job.is_host = conf.is_host;
  return {};
}

}  // namespace ddprun::cli
