// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A duration as text, rounded down: "12 ms", "41.3 s", "96 s", "10 min", "3 h 12 min", "4 d 2 h".
/// A negative one counts as zero.
std::string duration_text(std::chrono::nanoseconds duration);

/// `seconds` (not negative) in whole milliseconds, which keeps its text in JSON short. Avoids libm,
/// which nothing else needs.
double whole_milliseconds(double seconds);

/// Ranks as text, ascending, with runs joined: "0, 1, 3", "0-6, 8-127". A run of two is not joined.
/// Writes only the first `most` pieces: "0, 2, 4 and 497 more".
std::string compress_ranks(std::vector<int> ranks, size_t most = 12);

/// The same with the noun: "rank 3", "ranks 0-6, 8-127".
std::string ranks_text(const std::vector<int>& ranks, size_t most = 12);

/// "1 node", "4 nodes".
std::string count_text(std::int64_t count, const std::string& noun);

/// Ascending numbers in the list format of cpuset(7): "0-7,64-71".
std::string list_text(const std::vector<int>& ascending);

/// The first `most` bytes of `text`, and "..." if there are more. Never cuts a UTF-8 character in
/// two.
std::string cut(std::string text, size_t most);

/// `text` with every control character except tab and newline written as "\x1b", so that untrusted
/// bytes cannot control a terminal. UTF-8 passes; other bytes become "\xff".
std::string printable(std::string_view text);

/// `word` quoted for a POSIX shell.
std::string shell_word(std::string_view word);

/// "host:port"; an IPv6 address gets brackets.
std::string endpoint_text(const std::string& host, std::uint16_t port);

/// Demangles the function's name in a line of backtrace_symbols(3): "./train(_Z4stepi+0x1f)"
/// becomes "./train(step(int)+0x1f)". Returns other lines unchanged.
std::string with_cxx_name(std::string line);

/// Demangles a C++ name; returns other names unchanged.
std::string demangled(const std::string& name);

}  // namespace ddprun
