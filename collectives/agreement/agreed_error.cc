// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement/agreed_error.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "collectives/agreement/rank_status.h"
#include "collectives/crash/end_limit.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

constexpr const char* kKey = "agreed_error";
constexpr const char* kAllAreThere = "all";
constexpr std::chrono::milliseconds kSlice = std::chrono::seconds(1);

using Clock = std::chrono::steady_clock;

/// The keys of a meeting of all ranks: one for each rank, and rank 0's verdict for the others.
struct Meeting {
  Meeting(const GroupContext& context, const std::string& stem)
      : about(context.prefix + stem + "/") {}
  std::string key(int rank) const { return about + std::to_string(rank); }
  std::string verdict() const { return about + "all"; }
  std::string about;
};

/// The values, of which the lost ranks come last, after their number, and then the sentence.
std::string to_text(const AgreedError& error) {
  std::string text = std::to_string(static_cast<int>(error.kind)) + " " +
                     std::to_string(error.facts.rank) + " " + std::to_string(error.facts.number) +
                     " " + std::to_string(error.facts.lost.size()) + " ";
  for (const int rank : error.facts.lost) text += std::to_string(rank) + " ";
  return text + error.sentence;
}

AgreedError parse(const std::string& text) {
  std::istringstream stream(text);
  int kind = 0;
  std::size_t lost = 0;
  AgreedError error;
  stream >> kind >> error.facts.rank >> error.facts.number >> lost;
  for (int rank = 0; error.facts.lost.size() < lost && stream >> rank;) {
    error.facts.lost.push_back(rank);
  }
  stream.get();  // the space
  if (!stream || !std::getline(stream, error.sentence, '\0')) {
    return {ErrorKind::system, "a rank failed without a reason"};
  }
  error.kind = static_cast<ErrorKind>(kind);
  return error;
}

bool store_died_with_rank_0(const GroupContext& context, const Error& error) {
  return context.rank_0_serves && error.kind() == ErrorKind::unreachable;
}

std::vector<int> missing_ranks(const GroupContext& context, const Meeting& meeting) {
  std::vector<int> missing;
  for (int other = 0; other < context.size; ++other) {
    ask_store(context, [&](Store& store) {
      if (!store.check({meeting.key(other)})) missing.push_back(context.named(other));
    });
  }
  return missing;
}

bool are_set_within(std::chrono::milliseconds limit, const GroupContext& context,
                    const std::vector<std::string>& keys) {
  try {
    ask_store(context, [&](Store& store) { store.wait(keys, limit); });
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
    return false;
  }
}

bool are_set_in_time(const GroupContext& context, const std::vector<std::string>& keys,
                     const std::function<void()>& check, Clock::time_point deadline) {
  const auto left = [&] {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  };
  while (!are_set_within(check ? std::min(left(), kSlice) : left(), context, keys)) {
    if (check) check();
    if (Clock::now() >= deadline) return false;
  }
  return true;
}

/// Whether rank 0 has all, or has notified this rank. With meet_rank_0, waits for rank 0 first.
bool is_done_in_time(const GroupContext& context, const Meeting& meeting,
                     const WhileWaiting& waiting) {
  const auto deadline = Clock::now() + context.timeout;
  const auto are_set = [&](const std::vector<std::string>& keys) {
    return are_set_in_time(context, keys, waiting.check, deadline);
  };
  if (context.rank == 0) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < context.size; ++rank) keys.push_back(meeting.key(rank));
    return are_set(keys);
  }
  if (waiting.meet_rank_0) {
    if (!are_set({meeting.key(0)})) return false;
    waiting.meet_rank_0();
  }
  return are_set({meeting.verdict()});
}

/// Ends the process if the store does not answer a rank that has this to report.
EndLimit limit_of_store(const GroupContext& context, const std::string& sentence) {
  const auto time = limit_of_abort(context.timeout);
  return {"ddp: " + sentence + "; the store, asked for the cause, has not answered within " +
              name_time(time) + ": ending the process",
          time};
}

/// If no rank is missing any more, rank 0 has ended, or the last rank came too late.
AgreedError have_not_joined(const GroupContext& context, const Meeting& meeting) {
  const std::vector<int> missing = missing_ranks(context, meeting);
  const std::string limit = name_time(context.timeout) + " (" + context.store->name() + ")";
  if (!missing.empty()) {
    return {ErrorKind::timed_out, ": " + name_ranks(missing) + " did not join within " + limit};
  }
  return {ErrorKind::timed_out,
          ": " + name_ranks({context.named(0)}) + " did not see all ranks join within " + limit};
}

}  // namespace

void say_goodbye(const GroupContext& context) noexcept {
  try {
    context.store->set(left_key(context, context.rank), "");
  } catch (const std::exception&) {
    // The others take the end of this rank's connections for a loss.
  }
}

AgreedError propose_error(const GroupContext& context, const AgreedError& mine) {
  if (!context.store) return mine;
  return parse(context.store->compare_set(context.prefix + kKey, "", to_text(mine)));
}

AgreedError wait_for_agreed_error(Store& store, const std::string& prefix,
                                  std::chrono::milliseconds limit) {
  return parse(store.get(prefix + kKey, limit));
}

std::optional<AgreedError> find_agreed_error(const GroupContext& context) {
  const std::string key = context.prefix + kKey;
  std::optional<AgreedError> agreed;
  ask_store(context, [&](Store& store) {
    if (store.check({key})) agreed = parse(store.get(key));
  });
  return agreed;
}

AgreedError without_store(const GroupContext& context, const std::string& sentence,
                          const Error& error) {
  const bool is_lost = store_died_with_rank_0(context, error);
  const std::string server = is_lost                 ? "lost rank 0, which served the store: "
                             : context.rank_0_serves ? "rank 0 serves the store: "
                                                     : "";
  return {is_lost ? ErrorKind::peer_lost : ErrorKind::timed_out,
          sentence + ": " + server + plain_text(error),
          {.lost = is_lost ? std::vector{0} : std::vector<int>()}};
}

Error to_error(const GroupContext& context, const std::string& where, const AgreedError& agreed) {
  const int me = context.named(context.rank);
  std::string own;
  if (agreed.facts.rank != me) {
    own = "rank " + std::to_string(me) + " failed" + (where.empty() ? "" : " " + where) + ": ";
  }
  return ErrorAccess::make(agreed.kind, "ddp: " + own + agreed.sentence, agreed.facts);
}

Error agree_on(const GroupContext& context, const std::string& where, ErrorKind kind,
               const std::string& sentence, ErrorFacts facts) {
  facts.rank = context.named(context.rank);
  const AgreedError mine = {kind, "rank " + std::to_string(facts.rank) + " " + sentence, facts};
  try {
    const EndLimit limit = limit_of_store(context, mine.sentence);
    return to_error(context, where, propose_error(context, mine));
  } catch (const Error& error) {
    // Without the store there is only what this rank saw. If rank 0 served the store and is gone,
    // the peer may be gone because of that.
    if (kind == ErrorKind::peer_lost && store_died_with_rank_0(context, error)) {
      return ErrorAccess::make(
          kind, "ddp: " + mine.sentence + " (and the store with rank 0, which served it)", facts);
    }
  }
  return ErrorAccess::make(kind, "ddp: " + mine.sentence, facts);
}

namespace {

bool has_left(const GroupContext& context, int peer) {
  const std::string who = name_ranks({context.named(peer)});
  try {
    const EndLimit limit = limit_of_store(
        context, "rank " + std::to_string(context.named(context.rank)) + " lost " + who);
    return context.store->check({left_key(context, peer)});
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Error agree_on_loss(const GroupContext& context, const std::string& where, int peer,
                    const std::string& reason) {
  if (has_left(context, peer)) return agree_on_leave(context, where, peer);
  return agree_on(context, where, ErrorKind::peer_lost,
                  "lost " + name_ranks({context.named(peer)}) + " " + where + ": " + reason,
                  {.lost = {context.named(peer)}});
}

Error agree_on_leave(const GroupContext& context, const std::string& where, int peer,
                     const std::string& more) {
  return agree_on(
      context, where, ErrorKind::left,
      "lost " + name_ranks({context.named(peer)}) + " " + where + ": it has left the group" + more,
      {.lost = {context.named(peer)}});
}

Error agree_on_timeout(const GroupContext& context, const std::string& where, int peer) {
  return agree_on(context, where, ErrorKind::timed_out,
                  "timed out after " + name_time(context.timeout) + " waiting for " +
                      name_ranks({context.named(peer)}) + " " + where);
}

Error agree_on_exception(const GroupContext& context, const std::string& where) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return agree_on(context, where, ErrorKind::system, "has no memory left " + where);
  } catch (const std::exception& thrown) {
    return agree_on(context, where, ErrorKind::system, "failed " + where + ": " + thrown.what());
  }
}

Error own_error(const GroupContext& context, ErrorKind kind, const std::string& text) {
  return {kind, "ddp: rank " + std::to_string(context.named(context.rank)) + text};
}

std::string plain_text(const Error& error) {
  const std::string text = error.what();
  return text.starts_with("ddp: ") ? text.substr(5) : text;
}

void ask_store(const GroupContext& context, const std::function<void(Store& store)>& request) {
  try {
    request(*context.store);
  } catch (const Error& error) {
    const Error own = at_rank(context.named(context.rank), error);
    if (store_died_with_rank_0(context, error)) {
      throw ErrorAccess::make(ErrorKind::peer_lost,
                              std::string(own.what()) + ": lost rank 0, which served it",
                              {.lost = {0}});
    }
    if (!context.rank_0_serves || error.kind() != ErrorKind::timed_out) throw Error(own);
    throw Error(own.kind(), std::string(own.what()) + ": rank 0 serves it");
  }
}

void wait_for_all_ranks(const GroupContext& context, const std::string& stem,
                        const WhileWaiting& waiting) {
  const Meeting meeting(context, stem);
  const bool judges = context.rank == 0;
  std::optional<AgreedError> wrong;
  if (!is_done_in_time(context, meeting, waiting)) {
    wrong = have_not_joined(context, meeting);
  } else if (judges && waiting.judge) {
    wrong = waiting.judge();
  }
  ask_store(context, [&](Store& store) {
    if (judges) return store.set(meeting.verdict(), wrong ? to_text(*wrong) : kAllAreThere);
    const std::string told = wrong ? kAllAreThere : store.get(meeting.verdict());
    if (told != kAllAreThere) wrong = parse(told);
  });
  if (wrong) {
    throw ErrorAccess::make(wrong->kind, own_error(context, wrong->kind, wrong->sentence).what(),
                            wrong->facts);
  }
}

void tell_instead_of_rank_0(const GroupContext& context, const std::string& stem,
                            const AgreedError& error) {
  context.store->compare_set(Meeting(context, stem).verdict(), "", to_text(error));
}

}  // namespace ddp::internal
