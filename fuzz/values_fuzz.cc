// SPDX-License-Identifier: Apache-2.0
// Arbitrary text as values of flags and of torchrun's variables, as files of hosts, and as sent by
// the doctors of other nodes. Accepted values are in their range. The first byte selects the
// grammar.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "agent/worker/timer_request.h"
#include "base/text.h"
#include "cli/doctor/json.h"
#include "cli/line/rdzv_conf.h"
#include "cli/line/setters.h"
#include "cli/line/values.h"
#include "fuzz/target.h"
#include "remote/hosts.h"

namespace {

using namespace ddprun;
using namespace ddprun::cli;
using fuzz::require;
using std::chrono::milliseconds;

bool is_time(milliseconds time, milliseconds least = milliseconds(0)) {
  return time >= least && time <= kLongestTime;
}

void check_conf(std::string_view text) {
  agent::JobSpec job;
  EtcdConf etcd;
  if (const Result<> set = set_rdzv_conf(text, job, etcd); !set) {
    require(set.error().code == Errc::usage, "a wrong value is the user's error");
    return;
  }
  require(is_time(job.join_timeout, kShortestTime), "a join timeout is a time");
  require(is_time(job.last_call), "a last call is a time");
  require(is_time(job.heartbeat, kShortestTime), "an interval is a time");
  require(is_time(job.lease), "a lease is a time");
}

void check_endpoint(std::string_view text) {
  const auto parsed = parse_host_port(text);
  if (!parsed || !parsed->port || parsed->host.empty()) return;
  const auto again = parse_host_port(endpoint_text(parsed->host, *parsed->port));
  require(again && again->host == parsed->host && again->port == parsed->port,
          "an endpoint is parsed as it is printed");
}

void check_lists(std::string_view text) {
  if (const auto ranks = parse_ranks(text)) {
    require(!ranks->empty() && *ranks->begin() >= 0, "ranks are not negative");
  }
  if (const auto texts = parse_texts(text)) {
    for (const std::string& each : *texts) require(!each.empty(), "a text is not empty");
  }
  if (const auto signals = parse_signals(text)) {
    for (const int signal : *signals) require(signal > 0 && signal < 65, "a signal is one");
  }
  parse_masks(text);
}

void check_timers(std::string_view text) {
  agent::TimerTable table;
  const auto latest = agent::TimerRequest::Time(std::chrono::hours(24 * 365 * 290));
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size());
    if (const auto request = agent::parse_timer_request(text.substr(0, size))) {
      require(request->pid > 0, "a request is of a process");
      require(!request->end || *request->end < latest, "a timer ends some day");
      table.add(*request);
    }
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  for (const auto& timer : table.take_expired(latest)) {
    require(timer.signal > 0, "an expired timer has a signal");
  }
  require(!table.next().has_value(), "all timers have expired");
}

void check_hosts(std::string_view text) {
  for (const auto& hosts : {remote::parse_host_file(text), remote::parse_host_list(text)}) {
    if (!hosts) {
      require(hosts.error().code == Errc::usage, "a wrong host is the user's error");
      continue;
    }
    std::set<std::string> names;
    for (const remote::HostName& host : *hosts) {
      require(names.insert(host.name).second, "a host is named once");
      require(printable(host.name) == host.name, "a host's name can be printed");
      require(!host.slots || (*host.slots >= 1 && *host.slots <= 65'536), "slots are in range");
    }
  }
}

/// `decode` reads what encode makes of its result.
template <class Decode>
void decode_as_encoded(std::string_view text, Decode decode) {
  if (const auto read = decode(text)) {
    const std::string written = doctor::encode(*read);
    const auto again = decode(written);
    require(again && doctor::encode(*again) == written, "facts are read as they are written");
  }
}

void check_doctor(std::string_view text) {
  decode_as_encoded(text, doctor::decode_order);
  decode_as_encoded(text, doctor::decode_facts);
  if (const auto links = doctor::decode_links(text, 1, 3)) {
    for (const doctor::Link& link : *links) {
      require(link.from == 1 && (link.to == 0 || link.to == 2), "a node tells of its own links");
    }
  }
}

void check_plain(std::string_view text) {
  if (const auto time = parse_time(text)) require(is_time(*time), "a time is in its range");
  if (const auto count = parse_count(text, 3, 70'000)) {
    require(*count >= 3 && *count <= 70'000, "a count is in its range");
  }
  if (is_run_id(text)) require(printable(text) == text, "a name can be printed");
  if (const auto host = parse_host(text)) {
    require(!host->empty() && host->find('[') == host->npos, "a host has no brackets");
  }
  parse_switch(text);
  parse_truth(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'c':
      check_conf(text);
      break;
    case 'd':
      check_doctor(text);
      break;
    case 'e':
      check_endpoint(text);
      break;
    case 'h':
      check_hosts(text);
      break;
    case 'l':
      check_lists(text);
      break;
    case 't':
      check_timers(text);
      break;
    default:
      check_plain(text);
  }
  return 0;
}
