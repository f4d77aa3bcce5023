// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A span of time for people, cut rather than rounded up: "12 ms", "41.3 s", "96 s", "10 min",
/// "3 h 12 min", "4 d 2 h". Negative counts as none.
std::string duration_text(std::chrono::nanoseconds duration);

/// Numbers in ascending order with runs joined: "0, 1, 3", "0-6, 8-127". Runs of two stay apart.
/// More than `most` pieces are cut: "0, 2, 4 and 497 more".
std::string compress_ranks(std::vector<int> ranks, size_t most = 12);

/// At most `most` bytes of the beginning of `text`, and "..." when that is not all. A character of
/// UTF-8 is not cut in two.
std::string cut(std::string text, size_t most);

/// `text` with every control character but tab and newline written as "\x1b", so that bytes from
/// a stranger cannot steer the reader's terminal. UTF-8 passes; bytes that are not become "\xff".
std::string printable(std::string_view text);

/// "host:port", an IPv6 address in brackets.
std::string endpoint_text(const std::string& host, std::uint16_t port);

/// A line of backtrace_symbols(3), "./train(_Z4stepi+0x1f)", with the function's name as C++ writes
/// it: "./train(step(int)+0x1f)". Any other line as it is.
std::string with_cxx_name(std::string line);

/// A mangled name of C++ as it is written; any other as it is.
std::string demangled(const std::string& name);

}  // namespace ddprun
