// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/agreement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/comparison.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

struct RankCall {
  Call call;
  std::int32_t rank = 0;
  std::int32_t unused = 0;
};

/// Orders calls. Any total order will do: least and greatest are equal only if all calls are.
bool is_less(const Call& one, const Call& other) {
  return std::memcmp(&one, &other, sizeof(Call)) < 0;
}

}  // namespace

/// The content of a message.
struct MpiAgreement::Extremes {
  RankCall least;
  RankCall greatest;
  std::int32_t all_ok = 1;
  std::int32_t left = -1;  ///< a rank that has left

  void merge(const Extremes& more) {
    if (is_less(more.least.call, least.call)) least = more.least;
    if (is_less(greatest.call, more.greatest.call)) greatest = more.greatest;
    all_ok = std::min(all_ok, more.all_ok);
    left = std::max(left, more.left);
  }
};

/// Returns false after abort().
bool MpiAgreement::exchange(Extremes& known) {
  const int size = context_.size;
  for (int distance = 1; distance < size; distance *= 2) {
    const int from = (context_.rank + size - distance) % size;
    Extremes received;
    if (!group_.exchange((context_.rank + distance) % size, &known, from, &received, sizeof(known),
                         [this] { return !aborted_; })) {
      return false;
    }
    known.merge(received);
  }
  return true;
}

/// A call has a number, from 1, so it is greater than none.
bool MpiAgreement::leave() {
  const RankCall none{.call = {}, .rank = context_.rank};
  Extremes known{.least = none, .greatest = none, .left = context_.rank};
  return exchange(known) && known.greatest.call.number == 0;
}

void MpiAgreement::run(const Call& call, bool ok) {
  const RankCall own{call, context_.rank};
  Extremes known{.least = own, .greatest = own, .all_ok = ok ? 1 : 0};
  if (!exchange(known)) {
    throw own_error(context_, ErrorKind::system, " aborted " + describe(call));
  }
  if (known.left >= 0) throw agree_on_leave(context_, "in " + describe(call), known.left);
  const bool differ = known.least.call != known.greatest.call;
  if (!differ && known.all_ok != 0) return;
  const RankCall& other = known.least.call == call ? known.greatest : known.least;
  check_fits(context_, call, {call}, {other.call}, other.rank);
  // A rank that is not `ok` has proposed its error, which agree_on() returns.
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch,
                 "learned that counts of " + describe(call) + " differ", {.number = call.number});
}

}  // namespace ddp::internal
