// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/agreement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "collectives/backends/agreed_error.h"
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

/// The content of a message.
struct Extremes {
  RankCall least;
  RankCall greatest;
  std::int32_t all_ok = 1;
  std::int32_t unused = 0;

  void merge(const Extremes& more) {
    if (is_less(more.least.call, least.call)) least = more.least;
    if (is_less(greatest.call, more.greatest.call)) greatest = more.greatest;
    all_ok = std::min(all_ok, more.all_ok);
  }
};

}  // namespace

void MpiAgreement::run(const Call& call, bool ok) {
  const RankCall own{call, context_.rank};
  Extremes known{own, own, ok ? 1 : 0};
  const int size = context_.size;
  for (int distance = 1; distance < size; distance *= 2) {
    const int from = (context_.rank + size - distance) % size;
    Extremes received;
    if (!group_.exchange((context_.rank + distance) % size, &known, from, &received, sizeof(known),
                         [this] { return !aborted_; })) {
      throw own_error(context_, ErrorKind::system, " aborted " + describe(call));
    }
    known.merge(received);
  }
  const bool differ = known.least.call != known.greatest.call;
  if (!differ && known.all_ok != 0) return;
  const RankCall& other = known.least.call == call ? known.greatest : known.least;
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch,
                 "is at " + describe(call) + ", but " + name_ranks({context_.named(other.rank)}) +
                     " is at " + describe(other.call));
}

}  // namespace ddp::internal
