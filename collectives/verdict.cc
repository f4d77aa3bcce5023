// SPDX-License-Identifier: Apache-2.0
#include "collectives/verdict.h"

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "collectives/failure.h"

namespace ddp::internal {
namespace {

constexpr const char* kKey = "verdict";

/// "3 rank 1 waited ...".
Verdict parse(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return {ErrorKind::system, "a rank failed and did not say how"};
  return {static_cast<ErrorKind>(std::atoi(text.c_str())), text.substr(space + 1)};
}

bool store_died_with_rank_0(const Meeting& meeting, const Error& error) {
  return meeting.rank_0_serves && error.kind() == ErrorKind::unreachable;
}

std::string missing_ranks(const Meeting& meeting, const std::vector<std::string>& keys) {
  std::vector<int> missing;
  for (int other = 0; other < meeting.size; ++other) {
    ask_store(meeting, [&](Store& store) {
      if (!store.check({keys[static_cast<std::size_t>(other)]})) {
        missing.push_back(meeting.named(other));
      }
    });
  }
  return missing.empty() ? "some rank" : name_ranks(missing);
}

}  // namespace

Verdict decide(const Meeting& meeting, const Verdict& mine) {
  if (!meeting.store) return mine;
  const std::string text = std::to_string(static_cast<int>(mine.kind)) + " " + mine.sentence;
  return parse(meeting.store->compare_set(meeting.prefix + kKey, "", text));
}

Verdict wait_for_verdict(Store& store, const std::string& prefix, std::chrono::milliseconds limit) {
  return parse(store.get(prefix + kKey, limit));
}

Error told_by(const Meeting& meeting, const std::string& where, const Verdict& verdict) {
  const std::string me = "rank " + std::to_string(meeting.named(meeting.rank)) + " ";
  if (verdict.sentence.starts_with(me)) return {verdict.kind, "ddp: " + verdict.sentence};
  return {verdict.kind,
          "ddp: " + me + "stops" + (where.empty() ? "" : " " + where) + ": " + verdict.sentence};
}

Error agree_on(Meeting& meeting, const std::string& where, ErrorKind kind,
               const std::string& sentence) {
  const Verdict mine = {kind,
                        "rank " + std::to_string(meeting.named(meeting.rank)) + " " + sentence};
  try {
    return told_by(meeting, where, decide(meeting, mine));
  } catch (const Error& error) {
    // Without a store, what we saw ourselves has to do. The partner may have gone because rank 0
    // did.
    if (kind == ErrorKind::peer_lost && store_died_with_rank_0(meeting, error)) {
      return {kind, "ddp: " + mine.sentence + " (and the store with rank 0, which served it)"};
    }
  }
  return {kind, "ddp: " + mine.sentence};
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

void ask_store(const Meeting& meeting, const std::function<void(Store& store)>& ask) {
  try {
    ask(*meeting.store);
  } catch (const Error& error) {
    const Error told = at_rank(meeting.named(meeting.rank), error);
    if (!store_died_with_rank_0(meeting, error)) throw Error(told);
    throw Error(ErrorKind::peer_lost, std::string(told.what()) + ": lost rank 0, which served it");
  }
}

void wait_for_everyone(const Meeting& meeting, const std::string& stem) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < meeting.size; ++rank) {
    keys.push_back(meeting.prefix + stem + "/" + std::to_string(rank));
  }
  try {
    ask_store(meeting, [&](Store& store) { store.wait(keys, meeting.timeout); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
    throw Error(ErrorKind::timed_out, "ddp: rank " + std::to_string(meeting.named(meeting.rank)) +
                                          ": " + missing_ranks(meeting, keys) +
                                          " did not join within " + name_time(meeting.timeout) +
                                          " (" + meeting.store->name() + ")");
  }
}

}  // namespace ddp::internal
