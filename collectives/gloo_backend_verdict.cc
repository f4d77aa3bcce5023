// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_verdict.h"

#include <cstdlib>

#include "collectives/failure.h"

namespace ddp::internal {
namespace {

bool store_died_with_rank_0(const Meeting& meeting, const Error& error) {
  return meeting.rank_0_serves && error.kind() == ErrorKind::unreachable;
}

}  // namespace

Error agree_on(Meeting& meeting, const std::string& where, ErrorKind kind,
               const std::string& sentence) {
  const std::string me = "rank " + std::to_string(meeting.named(meeting.rank));
  const std::string mine = std::to_string(static_cast<int>(kind)) + " " + me + " " + sentence;
  std::string verdict = mine;
  try {
    verdict = meeting.store->compare_set(meeting.prefix + "verdict", "", mine);
  } catch (const Error& error) {
    // Without a store, what we saw ourselves has to do. The partner may have gone because rank 0
    // did.
    if (kind == ErrorKind::peer_lost && store_died_with_rank_0(meeting, error)) {
      return {kind,
              "ddp: " + me + " " + sentence + " (and the store with rank 0, which served it)"};
    }
  }
  const std::size_t space = verdict.find(' ');
  if (space == std::string::npos || verdict == mine) return {kind, "ddp: " + me + " " + sentence};
  return {static_cast<ErrorKind>(std::atoi(verdict.c_str())),
          "ddp: " + me + " stops " + where + ": " + verdict.substr(space + 1)};
}

Error agree_on_loss(Meeting& meeting, const std::string& where, int partner,
                    const std::string& reason) {
  return agree_on(meeting, where, ErrorKind::peer_lost,
                  "lost " + name_ranks({meeting.named(partner)}) + " " + where + ": " + reason);
}

Error agree_on_timeout(Meeting& meeting, const std::string& where, int partner) {
  return agree_on(meeting, where, ErrorKind::timed_out,
                  "waited " + name_time(meeting.timeout) + " in vain for " +
                      name_ranks({meeting.named(partner)}) + " " + where);
}

Error agree_on_failure(Meeting& meeting, const std::string& where, int partner,
                       const std::exception& failure) {
  const std::string text = what_gloo_says(failure);
  const bool timed_out =
      text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  return timed_out ? agree_on_timeout(meeting, where, partner)
                   : agree_on_loss(meeting, where, partner, text);
}

std::string what_gloo_says(const std::exception& failure) {
  const std::string text = failure.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

void ask_store(const Meeting& meeting, const std::function<void(Store& store)>& ask) {
  try {
    ask(*meeting.store);
  } catch (const Error& error) {
    const Error told = at_rank(meeting.named(meeting.rank), error);
    if (!store_died_with_rank_0(meeting, error)) throw Error(told);
    throw Error(ErrorKind::peer_lost, std::string(told.what()) + ": lost rank 0, which served it");
  }
}

}  // namespace ddp::internal
