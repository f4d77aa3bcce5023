// SPDX-License-Identifier: Apache-2.0
#include "agent/job/first_failure.h"

#include <algorithm>
#include <csignal>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "agent/job/outcome.h"

namespace ddprun::agent {
namespace {

constexpr size_t kLastLines = 4;  // of stderr: the exception, and what a library wrote after it

/// The words of Gloo, NCCL, MPI, PyTorch's store and the C library about peers, in lower case,
/// without kLostPeerWords.
constexpr std::string_view kWords[] = {
    "timed out",
    "timeout",
    "time-out",
    "time out",
    "watchdog",
    "connection refused",
    "connection aborted",
    "broken pipe",
    "remote peer",
    "heartbeat",
    "collective mismatch",
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

/// The words about a peer's end, with those of ddp. They lack pipes, which seldom lead to a peer.
constexpr std::string_view kLostPeerWords[] = {
    "lost rank",       "connection reset",  "connection closed",     "connection was closed",
    "socket closed",   "closed by peer",    "remote process exited", "reset by peer",
    "ncclremoteerror", "leaving the group",
};

/// PyTorch's watchdog of NCCL also ends a process after an error on the process's own GPU.
constexpr std::string_view kOfGpu = "watchdog thread terminated with exception: cuda error";

bool has_any(std::string_view text, std::span<const std::string_view> words) {
  std::string low = lower(text);
  for (size_t at = 0; (at = low.find(kOfGpu, at)) != low.npos;) low.erase(at, kOfGpu.size());
  return std::ranges::any_of(words, [&](auto word) { return low.find(word) != low.npos; });
}

std::string_view last_lines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  size_t begin = text.size();
  for (size_t i = 0; i < kLastLines && begin != text.npos && begin > 0; ++i) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == text.npos ? text : text.substr(begin);
}

/// Why the process ended, in its own words; empty: a signal ended it, and no words explain that.
std::string last_words(const rendezvous::Failure& failure) {
  const int signal = exit_status(failure).signal();
  // If a wait fails, a library calls abort(), and writes a stack after the reason.
  if (signal == SIGABRT) return failure.stderr_tail + failure.exception;
  if (!failure.exception.empty()) return failure.exception;
  return signal != 0 ? "" : std::string(last_lines(failure.stderr_tail));
}

bool has_no_words(const rendezvous::Failure& failure) {
  return failure.pid == 0 || !failure.cause.empty();
}

/// In a rank that finds another one gone, Open MPI 5 calls MPI_Abort with MPI_ERR_UNKNOWN,
/// silently. A program may do so, too: no running rank may be blamed for it.
bool was_aborted_by_open_mpi(const rendezvous::Failure& failure) {
  return failure.cause == "called MPI_Abort(14)";
}

}  // namespace

bool is_consequence(const rendezvous::Failure& failure) {
  if (has_no_words(failure)) return false;
  if (failure.exception.empty() && exit_status(failure).signal() == SIGPIPE) return true;
  return has_any(last_words(failure), kWords) || says_it_lost_a_peer(failure);
}

bool says_it_lost_a_peer(const rendezvous::Failure& failure) {
  if (was_aborted_by_open_mpi(failure)) return true;
  return !has_no_words(failure) && has_any(last_words(failure), kLostPeerWords);
}

std::size_t FirstFailure::ended() {
  candidates_.emplace_back();
  return candidates_.size() - 1;
}

std::optional<rendezvous::Failure> FirstFailure::examined(std::size_t number,
                                                          rendezvous::Failure failure) {
  const bool lost_a_peer = says_it_lost_a_peer(failure);
  candidates_[number] = {std::move(failure), lost_a_peer};
  if (reported_) return std::nullopt;
  const auto first =
      std::ranges::find_if(candidates_, [](const Candidate& each) { return !each.lost_a_peer; });
  if (first == candidates_.end() || !first->failure) return std::nullopt;
  reported_ = true;
  return first->failure;
}

bool FirstFailure::waits_for_cause() const {
  return !reported_ && !candidates_.empty() &&
         std::ranges::all_of(candidates_, [](const Candidate& each) { return each.lost_a_peer; });
}

std::optional<rendezvous::Failure> FirstFailure::give_up() {
  if (!waits_for_cause()) return std::nullopt;
  reported_ = true;
  return candidates_.front().failure;
}

void FirstFailure::clear() {
  candidates_.clear();
  reported_ = false;
}

}  // namespace ddprun::agent
