// SPDX-License-Identifier: Apache-2.0
// Requests and replies of the store as bytes, for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_order.h"
#include "store/wire.h"

namespace ddprun::store::bytes {

inline std::string hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return out;
}

/// 8 bytes.
inline std::string integer(std::int64_t number) {
  std::string out;
  append_little_endian(out, static_cast<std::uint64_t>(number), 8);
  return out;
}

/// A key or a value.
inline std::string text(std::string_view content) {
  std::string out;
  append_bytes(out, content);
  return out;
}

inline std::string list(const std::vector<std::string>& keys) {
  std::string out = integer(static_cast<std::int64_t>(keys.size()));
  for (const auto& key : keys) out += text(key);
  return out;
}

inline const std::string kHello{kStoreGreeting};
inline const std::string kStop("\0", 1);
inline const std::string kCanceled("\1", 1);
inline const std::string kYes("\0", 1);
inline const std::string kNo("\1", 1);

// Requests of the current dialect.
inline std::string type(RequestType request) {
  return {static_cast<char>(request)};
}
inline std::string set(std::string_view key, std::string_view value) {
  return type(RequestType::set) + text(key) + text(value);
}
inline std::string get(std::string_view key) {
  return type(RequestType::get) + text(key);
}
inline std::string add(std::string_view key, std::int64_t delta) {
  return type(RequestType::add) + text(key) + integer(delta);
}
inline std::string compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired) {
  return type(RequestType::compare_set) + text(key) + text(expected) + text(desired);
}
inline std::string check(const std::vector<std::string>& keys) {
  return type(RequestType::check) + list(keys);
}
inline std::string wait(const std::vector<std::string>& keys) {
  return type(RequestType::wait) + list(keys);
}
inline std::string cancel() {
  return type(RequestType::cancel_wait);
}
inline std::string key_count() {
  return type(RequestType::get_num_keys);
}
inline std::string erase(std::string_view key) {
  return type(RequestType::delete_key) + text(key);
}
inline std::string append(std::string_view key, std::string_view suffix) {
  return type(RequestType::append) + text(key) + text(suffix);
}
inline std::string multi_get(const std::vector<std::string>& keys) {
  return type(RequestType::multi_get) + list(keys);
}
inline std::string push(std::string_view queue, std::string_view value) {
  return type(RequestType::queue_push) + text(queue) + text(value);
}
inline std::string pop(std::string_view queue) {
  return type(RequestType::queue_pop) + text(queue);
}
inline std::string barrier(std::string_view key, std::int64_t count) {
  return type(RequestType::barrier) + text(key) + integer(count);
}

}  // namespace ddprun::store::bytes
