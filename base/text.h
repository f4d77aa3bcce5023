// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A duration for people, rounded down: "12 ms", "41.3 s", "96 s", "10 min", "3 h 12 min",
/// "4 d 2 h". Negative counts as zero.
std::string duration_text(std::chrono::nanoseconds duration);

/// `seconds` (not negative) in whole milliseconds, which keeps its text in JSON short. Without
/// libm, which would be loaded for nothing else.
double whole_milliseconds(double seconds);

/// Ranks for people, in ascending order with runs joined: "0, 1, 3", "0-6, 8-127". A run of two is
/// not joined. Only the first `most` pieces are written: "0, 2, 4 and 497 more".
std::string compress_ranks(std::vector<int> ranks, size_t most = 12);

/// The same with the noun: "rank 3", "ranks 0-6, 8-127".
std::string ranks_text(const std::vector<int>& ranks, size_t most = 12);

/// "1 node", "4 nodes".
std::string count_text(std::int64_t count, const std::string& noun);

/// Ascending numbers in the list format of cpuset(7): "0-7,64-71".
std::string list_text(const std::vector<int>& ascending);

/// The first `most` bytes of `text`, and "..." if there are more. A character of UTF-8 is not cut
/// in two.
std::string cut(std::string text, size_t most);

/// `text` with every control character but tab and newline written as "\x1b", so that untrusted
/// bytes cannot control a terminal. UTF-8 passes; other bytes become "\xff".
std::string printable(std::string_view text);

/// `word` as a POSIX shell reads it back.
std::string shell_word(std::string_view word);

/// "host:port", an IPv6 address in brackets.
std::string endpoint_text(const std::string& host, std::uint16_t port);

/// A line of backtrace_symbols(3), "./train(_Z4stepi+0x1f)", with the function's name
/// demangled: "./train(step(int)+0x1f)". Any other line as it is.
std::string with_cxx_name(std::string line);

/// A mangled name of C++ in its readable form; any other as it is.
std::string demangled(const std::string& name);

}  // namespace ddprun
