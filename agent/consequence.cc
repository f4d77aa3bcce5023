// SPDX-License-Identifier: Apache-2.0
#include "agent/consequence.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>

#include "agent/outcome.h"

namespace ddprun::agent {
namespace {

constexpr size_t kLastLines = 4;  // of stderr: the exception, and what a library wrote after it

/// The words of Gloo, NCCL, MPI, PyTorch's store and the C library about peers, in lower case.
constexpr std::string_view kWords[] = {
    "timed out",
    "timeout",
    "time-out",
    "time out",
    "watchdog",
    "connection reset",
    "connection refused",
    "connection closed",
    "connection was closed",
    "connection aborted",
    "closed by peer",
    "reset by peer",
    "broken pipe",
    "remote process exited",
    "remote peer",
    "ncclremoteerror",
    "socket closed",
    "heartbeat",
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

bool speaks_of_a_peer(std::string_view text) {
  const std::string words = lower(text);
  return std::ranges::any_of(kWords, [&](auto word) { return words.find(word) != words.npos; });
}

std::string_view last_lines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  size_t begin = text.size();
  for (size_t i = 0; i < kLastLines && begin != text.npos && begin > 0; ++i) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == text.npos ? text : text.substr(begin);
}

}  // namespace

bool is_consequence(const rendezvous::Failure& failure) {
  if (failure.pid == 0 || !failure.cause.empty()) return false;
  const int signal = exit_status(failure).signal();
  // A library ends a process whose wait failed by abort(), and writes a stack after its reason.
  if (signal == SIGABRT) return speaks_of_a_peer(failure.stderr_tail + failure.exception);
  if (!failure.exception.empty()) return speaks_of_a_peer(failure.exception);
  if (signal != 0) return signal == SIGPIPE;
  return speaks_of_a_peer(last_lines(failure.stderr_tail));
}

}  // namespace ddprun::agent
