// SPDX-License-Identifier: Apache-2.0
#include "remote/hosts.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/number.h"
#include "base/text.h"

namespace ddprun::remote {
namespace {

constexpr size_t kMostHosts = 32'767;
constexpr int kMostSlots = 65'536;

Error invalid(const std::string& what, std::string_view text) {
  return {Errc::usage, what + " '" + printable(cut(std::string(text), 100)) + "'"};
}

Result<int> parse_slots(std::string_view text) {
  if (const auto slots = whole_number(text, 1, kMostSlots)) return *slots;
  return invalid("expected a number of slots from 1 to " + std::to_string(kMostSlots) + ", not",
                 text);
}

/// Letters, digits and characters of addresses and users; a dash in front would be an ssh option.
bool is_name(std::string_view name) {
  const auto may_be_in_names = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-@:%+").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= 300 && name.front() != '-' && name.back() != '@' &&
         std::all_of(name.begin(), name.end(), may_be_in_names);
}

/// "host", "host:4", "fd09::1" or "[fd09::1]:4".
Result<HostName> parse_host(std::string_view text) {
  HostName host;
  std::string_view name = text, slots;
  const size_t bracket = text.find('[');
  if (const size_t end = text.find(']'); bracket != std::string_view::npos && end > bracket) {
    host.name = text.substr(0, bracket);  // the user
    name = text.substr(bracket + 1, end - bracket - 1);
    slots = text.substr(std::min(end + 1, text.size()));
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    name = text.substr(0, text.find(':'));
    slots = text.substr(text.find(':'));
  }
  host.name += name;
  if (!is_name(host.name)) return invalid("expected the name of a host, not", text);
  if (slots.empty()) return host;
  const Result<int> number = parse_slots(slots.front() == ':' ? slots.substr(1) : slots);
  if (!number) return number.error();
  host.slots = *number;
  return host;
}

/// Each host once, in the order of their first occurrence.
struct HostTable {
  HostNames hosts;
  std::unordered_map<std::string, size_t> places;  // in `hosts`, by name
};

Result<> add(HostName host, HostTable& table) {
  const auto [place, is_new] = table.places.try_emplace(host.name, table.hosts.size());
  if (!is_new) {
    HostName& known = table.hosts[place->second];
    known.slots = std::min(known.slots.value_or(1) + host.slots.value_or(1), kMostSlots);
  } else if (table.hosts.size() == kMostHosts) {
    return Error{Errc::usage, "more than " + std::to_string(kMostHosts) + " hosts"};
  } else {
    table.hosts.push_back(std::move(host));
  }
  return {};
}

Result<> add_line(std::string_view line, HostTable& table) {
  const std::vector<std::string_view> words = words_between_blanks(line.substr(0, line.find('#')));
  if (words.empty()) return {};
  Result<HostName> host = parse_host(words.front());
  if (!host) return host.error();
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    if (!word.starts_with("slots=")) return invalid("expected slots=N, not", word);
    const Result<int> slots = parse_slots(word.substr(word.find('=') + 1));
    if (!slots) return slots.error();
    host->slots = *slots;
  }
  return add(std::move(*host), table);
}

}  // namespace

Result<HostNames> parse_host_list(std::string_view text) {
  HostTable table;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Result<HostName> host = parse_host(text.substr(begin, end - begin));
    if (!host) return host.error();
    if (const Result<> added = add(std::move(*host), table); !added) return added.error();
    begin = end + 1;
  }
  return std::move(table.hosts);
}

Result<HostNames> parse_host_file(std::string_view text) {
  HostTable table;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const Result<> added = add_line(text.substr(begin, end - begin), table);
    if (!added) return Error(added.error()).in("line " + std::to_string(number));
    begin = end + 1;
  }
  if (table.hosts.empty()) return Error{Errc::usage, "names no host"};
  return std::move(table.hosts);
}

std::string_view without_user(std::string_view name) {
  return name.substr(name.rfind('@') + 1);  // npos + 1 is 0
}

bool is_loopback(std::string_view name) {
  name = without_user(name);
  return name == "localhost" || name.starts_with("localhost.") || name.starts_with("127.") ||
         name == "::1";
}

}  // namespace ddprun::remote
