// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ddp/store.h"

namespace ddp::internal {

/// How the ranks that joined together tell each other that a call of theirs came to nothing: each
/// waits for a key of its own in the store, in a thread that does nothing else.
class Alarm {
 public:
  /// `prefix` is that of the group in which they joined; `heard` is called, once at most, in a
  /// thread of its own, with the prefix of the group in trouble. Where the store is lost, nobody is
  /// told.
  Alarm(std::shared_ptr<Store> store, std::string prefix, int rank, int size,
        std::function<void(const std::string& group)> heard);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// Waits for `heard`, if it is called now.
  ~Alarm();

  /// Tells all others of trouble in the group. Throws what the store throws.
  void raise(const std::string& group);

 private:
  std::string key(int rank) const { return prefix_ + "alarm/" + std::to_string(rank); }

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  const int size_;
  std::thread listener_;
};

}  // namespace ddp::internal
