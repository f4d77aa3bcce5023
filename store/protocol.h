// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

/// The numbers of c10d's TCPStore protocol of PyTorch 2.2 and later, for the store's server and
/// client. A request is its type byte and then its fields: integers little-endian, strings as a
/// 64-bit length and that many bytes.
namespace ddprun::store {

/// The type byte of a request.
enum class RequestType : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  get_num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
  watch_key = 19,  ///< our number for a request that only older releases have; they send 7
};

/// The number that a client sends after RequestType::validate, as the first bytes of its
/// connection.
inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

/// Replies to RequestType::wait, barrier and cancel_wait.
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

/// Replies to RequestType::check.
inline constexpr std::uint8_t kAllPresent = 0;
inline constexpr std::uint8_t kSomeMissing = 1;

/// Part of the name of a key that clients wait for to learn of a failure. When workers are lost,
/// ddprun's store sets every such awaited key to a sentence about it; no other store does.
inline constexpr std::string_view kFailureKey = "ddprun/alarm/";

}  // namespace ddprun::store
