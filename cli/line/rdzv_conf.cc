// SPDX-License-Identifier: Apache-2.0
#include "cli/line/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/line/usage_error.h"
#include "cli/line/values.h"

namespace ddprun::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kMostAttempts = 10'000;
constexpr std::string_view kExpectsFile = "the name of a file";

/// The keys given so far.
struct Conf {
  std::optional<milliseconds> join_timeout;
  std::optional<milliseconds> last_call;
  std::optional<milliseconds> interval;
  std::optional<int> attempts;
  std::optional<bool> is_host;
  std::vector<std::uint16_t> more_ports;
  EtcdConf etcd;
};

struct Key {
  std::string_view name;
  std::string_view expects;
  bool (*set)(std::string_view value, Conf& conf);
};

bool ignore(std::string_view, Conf&) {
  return true;
}

bool set_join_timeout(std::string_view value, Conf& conf) {
  return assign(parse_time(value, kShortestTime), conf.join_timeout);
}

bool set_more_ports(std::string_view value, Conf& conf) {
  std::string list(value);
  std::replace(list.begin(), list.end(), ':', ',');
  for (const std::string_view text : split(list)) {
    const auto port = parse_count(text, 1, 65'535);
    if (!port) return false;
    conf.more_ports.push_back(static_cast<std::uint16_t>(*port));
  }
  return true;
}

bool set_protocol(std::string_view value, Conf& conf) {
  conf.etcd.https = value == "https";
  return conf.etcd.https || value == "http";
}

template <std::string rendezvous::etcd::TlsFiles::* file>
bool set_file(std::string_view value, Conf& conf) {
  conf.etcd.files.*file = value;
  return !value.empty();
}

// clang-format off
constexpr auto kKeys = std::to_array<Key>({
    {"join_timeout", kExpectsNonzeroTime, set_join_timeout},
    {"timeout", kExpectsNonzeroTime, set_join_timeout},  // join_timeout of "static"
    {"last_call_timeout", kExpectsTime,
     [](std::string_view value, Conf& conf) { return assign(parse_time(value), conf.last_call); }},
    {"keep_alive_interval", kExpectsNonzeroTime,
     [](std::string_view value, Conf& conf) {
       return assign(parse_time(value, kShortestTime), conf.interval);
     }},
    {"keep_alive_max_attempt", "a number, 1 to 10000",
     [](std::string_view value, Conf& conf) {
       return assign(parse_count(value, 1, kMostAttempts), conf.attempts);
     }},
    {"is_host", "true or false",
     [](std::string_view value, Conf& conf) { return assign(parse_truth(value), conf.is_host); }},
    {"more_ports", "port numbers, 1 to 65535, with a colon between two", set_more_ports},
    {"protocol", "http or https", set_protocol},
    {"cacert", kExpectsFile, set_file<&rendezvous::etcd::TlsFiles::authority>},
    {"cert", kExpectsFile, set_file<&rendezvous::etcd::TlsFiles::certificate>},
    {"key", kExpectsFile, set_file<&rendezvous::etcd::TlsFiles::key>},
    {"close_timeout", "", ignore},
    {"heartbeat_timeout", "", ignore},
    {"read_timeout", "", ignore},
    {"store_type", "", ignore},
    {"use_libuv", "", ignore},
    {"cas_backoff_max_seconds", "", ignore},
});
// clang-format on

/// torchrun accepts any key. ddprun refuses a key that is close to a known one: it is a typing
/// mistake. Others have no effect in torchrun either, and get a warning.
Result<> unknown_key(std::string_view name, agent::JobSpec& job) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  const std::string sentence = "has no key '" + std::string(name) + "'";
  const std::optional<std::string> near = suggest(name, names);
  if (near) return usage_error(sentence + did_you_mean(near, ""));
  job.warnings.push_back("--rdzv_conf " + sentence + ": it is ignored");
  return {};
}

/// PyTorch's own tests put quotes around the value, which no shell removes.
std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

Result<> parse_pair(std::string_view pair, Conf& conf, agent::JobSpec& job) {
  const size_t equals = pair.find('=');
  if (equals == std::string_view::npos) {
    return usage_error("expects key=value, not '" + std::string(pair) + "'");
  }
  const std::string_view name = trimmed(pair.substr(0, equals));
  const std::string_view value = trimmed(pair.substr(equals + 1));
  const auto key = std::find_if(kKeys.begin(), kKeys.end(),
                                [name](const Key& candidate) { return candidate.name == name; });
  if (key == kKeys.end()) return unknown_key(name, job);
  if (key->set(value, conf)) return {};
  return usage_error(std::string(name) + " expects " + std::string(key->expects) + ", not '" +
                     std::string(value) + "'");
}

}  // namespace

Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job, EtcdConf& etcd) {
  std::vector<std::string_view> pairs = split(unquoted(text));
  if (pairs.back().empty()) pairs.pop_back();
  Conf conf;
  for (const std::string_view pair : pairs) {
    if (const Result<> parsed = parse_pair(pair, conf, job); !parsed) return parsed.error();
  }
  job.join_timeout = conf.join_timeout.value_or(job.join_timeout);
  job.last_call = conf.last_call.value_or(job.last_call);
  job.heartbeat = conf.interval.value_or(job.heartbeat);
  if (conf.interval || conf.attempts) {  // a missing one has torchrun's default
    const milliseconds interval = conf.interval.value_or(std::chrono::seconds(5));
    job.lease = std::min(kLongestTime, interval * conf.attempts.value_or(3));
  }
  if (conf.is_host) job.is_host = conf.is_host;
  if (!conf.more_ports.empty() && !job.is_host) {
    return usage_error(
        "more_ports needs is_host, too: true on the node that hosts the rendezvous, and false on "
        "the others");
  }
  job.more_ports = std::move(conf.more_ports);
  etcd = std::move(conf.etcd);
  return {};
}

std::string more_ports_text(const std::vector<std::uint16_t>& ports) {
  std::string text;
  for (const std::uint16_t port : ports) text += (text.empty() ? "" : ":") + std::to_string(port);
  return "more_ports=" + text;
}

Result<> check_etcd_conf(const EtcdConf& etcd, bool by_etcd) {
  const std::string flag = "--rdzv_conf ";
  if (!etcd.is_given()) return {};
  if (!by_etcd) {
    return usage_error(flag +
                       "protocol, cacert, cert and key say how etcd is reached: give "
                       "--rdzv_backend etcd, or leave them out");
  }
  if (!etcd.https) return usage_error(flag + "cacert, cert and key need protocol=https");
  if (etcd.files.authority.empty()) {
    return usage_error(flag +
                       "protocol=https needs cacert=FILE, the certificates that have signed those "
                       "of etcd's servers");
  }
  if (etcd.files.certificate.empty() == etcd.files.key.empty()) return {};
  return usage_error(flag + "cert=FILE and key=FILE are given together, or not at all");
}

}  // namespace ddprun::cli
