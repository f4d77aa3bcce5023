// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace ddprun::rendezvous {

/// The longest text in a message, in bytes; escaped it may be six times as long.
inline constexpr size_t kMaxText = 4 * 1024;

/// The end of a text: at most kMaxText bytes, from a whole character of UTF-8 on.
std::string tail(const std::string& text);

/// Whether a text has no control characters.
bool is_plain(const std::string& text);

/// Takes fields out of a message's object, which has to outlive it. Remembers the first field that
/// is missing or wrong; later values do not matter. Pure.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  /// A text of at most `most` bytes. The limit is usually three times kMaxText, as a byte that was
  /// not UTF-8 became three.
  std::string text(const char* name, size_t most = 3 * kMaxText);

  int integer(const char* name, int min, int max);

  /// A number that every JSON library reads exactly: at most 2^53.
  std::uint64_t count(const char* name);

  /// At most 10^12.
  std::chrono::milliseconds milliseconds(const char* name);

  /// Finite and not negative.
  double seconds(const char* name);

  bool boolean(const char* name);

  /// A list of at most `most` elements; empty if it is missing.
  const nlohmann::json& list(const char* name, size_t most);

  /// A list of at most `most` numbers of ranks.
  std::vector<int> ranks(const char* name, size_t most);

  /// The object in field `name`; empty if it is missing.
  const nlohmann::json& object(const char* name);

  bool has(const char* name) const { return find(name) != nullptr; }

  /// Call it if the field's value, which was read, makes no sense.
  void refuse(const char* name) { wrong(name); }

  /// Takes the error of `inner`, of an object within this one.
  void take_error(const Fields& inner);

  /// `value`, which was made of these fields. Errors: protocol, naming the first wrong field.
  template <class T>
  Result<T> or_error(T value) const {
    if (error_.empty()) return value;
    return Error{Errc::protocol, error_};
  }

 private:
  const nlohmann::json* find(const char* name) const;
  void wrong(const char* name);

  const nlohmann::json& object_;
  std::string error_;
};

}  // namespace ddprun::rendezvous
