// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_sum.h"

#define XXH_INLINE_ALL  // programs do not need the library at run time
#include <xxhash.h>

#include "base/hash.h"
#include "collectives/training/checkpoint_file.h"

namespace ddp::internal {

struct CheckpointSum::State {
  bool first_format;
  ddprun::Fnv64 fnv;
  XXH3_state_t xxh3;
};

CheckpointSum::CheckpointSum(const CheckpointHeader& header) : state_(std::make_unique<State>()) {
  state_->first_format = header.first_format;
  XXH3_64bits_reset(&state_->xxh3);
  add(checked_bytes(header));
}

CheckpointSum::~CheckpointSum() = default;

void CheckpointSum::add(std::string_view bytes) {
  if (state_->first_format) {
    state_->fnv.add(bytes);
  } else {
    XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
  }
}

std::uint64_t CheckpointSum::value() const {
  return state_->first_format ? state_->fnv.value() : XXH3_64bits_digest(&state_->xxh3);
}

}  // namespace ddp::internal
