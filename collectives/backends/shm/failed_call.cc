// SPDX-License-Identifier: Apache-2.0
// How ShmCollectives reports calls that differ, and data that a rank has not taken.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/rank_status.h"
#include "collectives/backends/shm/collectives.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

constexpr std::chrono::seconds kTimeToClose{1};

}  // namespace

/// All ranks wait until each rank's call is published, by itself or by another. If a rank's
/// connection ended before there was an agreed error, it publishes none. (All others publish theirs
/// when they fail by the error, but may be past the call, and busy.)
void ShmCollectives::fail(const Call& call, const ShmMismatch& found) {
  const std::string other = name_ranks({context_.named(found.rank)});
  const std::string text = difference({found.ours}, {found.theirs}, other).value_or("");
  const std::vector<int> ended = ended_ranks();
  const Error error = agree_on(context_, "in " + describe(call), ErrorKind::mismatch, text);
  const std::string own = own_error(context_, ErrorKind::mismatch, " " + text).what();
  if (error.what() == own && is_whole_) tell_calls_of_others(found.round, ended);
  throw Error(error);
}

std::vector<int> ShmCollectives::ended_ranks() const {
  std::vector<int> ended;
  for (int other = 0; other < context_.size; ++other) {
    if (watch_ && watch_->ends_within(other, std::chrono::milliseconds(0))) ended.push_back(other);
  }
  return ended;
}

void ShmCollectives::tell_calls_of_others(std::uint64_t round,
                                          const std::vector<int>& ended) const {
  std::vector<std::pair<std::string, std::string>> statuses;
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    if (const Call* const theirs = rounds_.call_of(other, round)) {
      statuses.emplace_back(status_key(context_, other), status_at(*theirs));
    } else if (std::ranges::count(ended, other) > 0) {
      statuses.emplace_back(status_key(context_, other), kNotAnswering);
    }
  }
  try {
    context_.store->multi_set(statuses);
  } catch (const Error&) {
    // The store is lost: there is only what two ranks saw.
  }
}

/// When a process ends, its connections close one after the other. If others saw that first and
/// agreed on the loss, this rank's connection may be about to end.
std::optional<ShmCollectives::Untaken> ShmCollectives::find_untaken() const {
  using namespace std::chrono;
  const auto deadline = steady_clock::now() + kTimeToClose;
  const auto ends = [&](int rank) {
    const auto left = ceil<milliseconds>(deadline - steady_clock::now());
    return watch_ && watch_->ends_within(rank, std::max(left, milliseconds(0)));
  };
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    const auto calls = rounds_.calls_after(other);
    const auto sent =
        std::ranges::find_if(calls, [&](const Call& call) { return sends_in(call, other); });
    if (sent != calls.end() && ends(other)) return Untaken{context_.named(other), *sent};
  }
  return std::nullopt;
}

bool ShmCollectives::sends_in(const Call& call, int to) const {
  if (!has_root(call.operation)) return false;
  const int sender_or_root = is_from_root(call.operation) ? context_.rank : to;
  return call.root == context_.named(sender_or_root);
}

}  // namespace ddp::internal
