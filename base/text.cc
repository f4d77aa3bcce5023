// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

#include "base/byte_order.h"

namespace ddprun {
namespace {

using std::chrono::nanoseconds;

std::string two_units(std::int64_t large, const char* large_unit, std::int64_t small,
                      const char* small_unit) {
  std::string text = std::to_string(large) + large_unit;
  if (small > 0) text += " " + std::to_string(small) + small_unit;
  return text;
}

/// The length of the UTF-8 sequence at the start of `text`; 0: it is invalid, an overlong form, or
/// a C1 control character.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xc2 && at(1) < 0xa0) return 0;  // C1: control characters for some terminals
  if (lead == 0xe0 && at(1) < 0xa0) return 0;  // overlong
  if (lead == 0xed && at(1) > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && at(1) < 0x90) return 0;  // overlong
  if (lead == 0xf4 && at(1) > 0x8f) return 0;  // beyond Unicode
  return length;
}

std::string escaped(char byte) {
  return "\\x" + hex_text({&byte, 1});
}

struct Run {
  int first;
  int last;

  size_t size() const { return static_cast<size_t>(last - first) + 1; }
  std::string text() const {
    return std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
  }
};

/// The runs of consecutive numbers; a run shorter than `shortest` is split into single numbers.
std::vector<Run> runs_of(const std::vector<int>& ascending, size_t shortest) {
  std::vector<Run> runs;
  for (size_t first = 0, last = 0; first < ascending.size(); first = ++last) {
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (last - first + 1 < shortest) last = first;
    runs.push_back({ascending[first], ascending[last]});
  }
  return runs;
}

}  // namespace

void write_hex(std::string_view bytes, char* to) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    *to++ = kDigits[byte >> 4];
    *to++ = kDigits[byte & 15];
  }
}

std::string hex_text(std::string_view bytes) {
  std::string text(2 * bytes.size(), '\0');
  write_hex(bytes, text.data());
  return text;
}

std::string hex_text(std::uint64_t number, std::size_t digits) {
  std::string bytes;
  append_big_endian(bytes, number, sizeof number);
  const std::string text = hex_text(bytes);
  return text.substr(std::min(text.find_first_not_of('0'), text.size() - digits));
}

std::string duration_text(nanoseconds duration) {
  const std::int64_t ms = std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  const std::int64_t s = ms / 1000;
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (s < 60) {
    const std::int64_t tenths = ms / 100 % 10;
    return std::to_string(s) + (tenths == 0 ? "" : "." + std::to_string(tenths)) + " s";
  }
  if (s < 600 && s % 60 != 0) return std::to_string(s) + " s";
  if (s < 3600) return std::to_string(s / 60) + " min";
  if (s < 2 * 86400) return two_units(s / 3600, " h", s / 60 % 60, " min");
  return two_units(s / 86400, " d", s / 3600 % 24, " h");
}

double whole_milliseconds(double seconds) {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::round<std::chrono::milliseconds>(Seconds(seconds))).count();
}

std::string compress_ranks(std::vector<int> ranks, size_t most) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());

  std::string text;
  size_t pieces = 0, written = 0;
  for (const Run& run : runs_of(ranks, 3)) {  // "0, 1" reads better than "0-1"
    if (pieces++ == most) return text + " and " + std::to_string(ranks.size() - written) + " more";
    text.append(text.empty() ? "" : ", ").append(run.text());
    written += run.size();
  }
  return text;
}

std::string ranks_text(const std::vector<int>& ranks, size_t most) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + compress_ranks(ranks, most);
}

std::string count_text(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string list_text(const std::vector<int>& ascending) {
  std::string text;
  for (const Run& run : runs_of(ascending, 2)) {
    text.append(text.empty() ? "" : ",").append(run.text());
  }
  return text;
}

std::string cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    size_t length = 1;
    if ((c >= ' ' && c <= '~') || c == '\t' || c == '\n') {
      safe += c;
    } else if (const size_t sequence = utf8_length(text); sequence > 0) {
      length = sequence;
      safe += text.substr(0, length);
    } else {
      safe += escaped(c);
    }
    text.remove_prefix(length);
  }
  return safe;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text += '\'';
}

std::string endpoint_text(const std::string& host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string with_cxx_name(std::string line) {
  const size_t begin = line.rfind('(') + 1;  // npos + 1 is 0
  const size_t end = line.find('+', begin);
  if (begin == 0 || end == line.npos || line.compare(begin, 2, "_Z") != 0) return line;
  return line.replace(begin, end - begin, demangled(line.substr(begin, end - begin)));
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? text.get() : name;
}

}  // namespace ddprun
