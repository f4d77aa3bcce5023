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

struct Statement {
  Call call;
  std::int32_t rank = 0;
  std::int32_t unused = 0;
};

/// Of any order: only ranks that make the same call find nothing that is less or greater.
bool is_less(const Call& one, const Call& other) {
  return std::memcmp(&one, &other, sizeof(Call)) < 0;
}

/// What a message carries.
struct Extremes {
  Statement least;
  Statement greatest;
  std::int32_t content = 1;  ///< all are
  std::int32_t unused = 0;

  void take(const Extremes& more) {
    if (is_less(more.least.call, least.call)) least = more.least;
    if (is_less(greatest.call, more.greatest.call)) greatest = more.greatest;
    content = std::min(content, more.content);
  }
};

}  // namespace

void MpiAgreement::run(const Call& call, bool content) {
  const Statement own{call, context_.rank};
  Extremes known{own, own, content ? 1 : 0};
  const int size = context_.size;
  for (int distance = 1; distance < size; distance *= 2) {
    const int from = (context_.rank + size - distance) % size;
    Extremes heard;
    if (!group_.exchange((context_.rank + distance) % size, &known, from, &heard, sizeof(known),
                         [this] { return !aborted_; })) {
      throw Error(ErrorKind::system, "ddp: rank " + std::to_string(context_.named(context_.rank)) +
                                         " gives up " + describe(call));
    }
    known.take(heard);
  }
  const bool differ = known.least.call != known.greatest.call;
  if (!differ && known.content != 0) return;
  const Statement& other = known.least.call == call ? known.greatest : known.least;
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch,
                 "is at " + describe(call) + ", but " + name_ranks({context_.named(other.rank)}) +
                     " is at " + describe(other.call));
}

}  // namespace ddp::internal
