// SPDX-License-Identifier: Apache-2.0
// How ShmCollectives reports calls that differ.
#include <cstdio>
#include <string>
#include <utility>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/rank_status.h"
#include "collectives/backends/shm/collectives.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

using Statuses = std::vector<std::pair<std::string, std::string>>;  // by key

void publish(Store& store, const Statuses& statuses) {
  try {
    store.multi_set(statuses);
  } catch (const Error&) {
    // The store is lost: there is only what two ranks saw.
  }
}

}  // namespace

/// All ranks wait until each rank's call is published, by itself or by another. If a rank's
/// connection ended before there was an agreed error, it publishes none. (All others publish theirs
/// when they fail by the error, but may be past the call, and busy.)
void ShmCollectives::fail(const Call& call, const ShmMismatch& found) {
  const std::string other = name_ranks({context_.named(found.rank)});
  const std::string text = difference({found.ours}, {found.theirs}, other).value_or("");
  const std::vector<bool> ended(ended_.begin(), ended_.end());
  const Error error = agree_on(context_, "in " + describe(call), ErrorKind::mismatch, text,
                               {.number = found.ours.number});
  const bool is_own = ErrorAccess::facts(error).rank == context_.named(context_.rank);
  if (is_own && is_whole_) tell_calls_of_others(found.round, ended);
  throw Error(error);
}

void ShmCollectives::tell_calls_of_others(std::uint64_t round,
                                          const std::vector<bool>& ended) const {
  Statuses statuses;
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    if (const Call* const theirs = rounds_.call_of(other, round)) {
      statuses.emplace_back(status_key(context_, other), status_at(*theirs));
    } else if (ended[static_cast<std::size_t>(other)]) {
      statuses.emplace_back(status_key(context_, other), kNotAnswering);
    }
  }
  publish(*context_.store, statuses);
}

/// A rank that only sends in a call does not wait for the others. So the last calls of two ranks
/// may differ without an error of either.
void ShmCollectives::leave() {
  rounds_.leave();
  const auto late = rounds_.late_difference();
  if (!late) return;
  if (!rounds_.has_left(late->rank)) {
    return publish(*context_.store,
                   {{status_key(context_, context_.rank), status_at(*late->ours)}});
  }
  const auto at = [](const Call* call) {
    return call == nullptr ? std::string("has left the group") : "is at " + describe(*call);
  };
  const std::string text = " " + at(late->ours) + ", but " +
                           name_ranks({context_.named(late->rank)}) + " " + at(late->theirs);
  std::fprintf(stderr, "%s\n", own_error(context_, ErrorKind::mismatch, text).what());
}

}  // namespace ddp::internal
