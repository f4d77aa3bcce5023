// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddprun::store {

// c10d's TCPStore protocol: a type byte, then fixed fields. Integers are little-endian, lengths and
// counts have 8 bytes, strings are a length and that many bytes. Pure.

/// The type byte of a request, in PyTorch 2.2 and later.
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
/// ddprun's store sets every such awaited key to a loss_text() about it; no other store does.
inline constexpr std::string_view kFailureKey = "ddprun/alarm/";

/// A sentence about lost workers behind the number of the one that is lost, and a space; -1: it is
/// not about one worker.
inline std::string loss_text(std::optional<int> lost, std::string_view sentence) {
  return std::to_string(lost.value_or(-1)) + " " + std::string(sentence);
}

/// The two numberings of request types that releases of PyTorch use.
enum class Dialect {
  undecided,  ///< the first bytes have not come yet
  legacy,     ///< 1.13, 2.0: no greeting
  current,    ///< 2.2 and later: each connection starts with kStoreGreeting
};

/// The first bytes of clients of the current dialect.
inline constexpr std::string_view kStoreGreeting{"\x00\xCE\xF7\x85\x3C", 5};

/// Limits of one request; a larger one is refused before anything is allocated.
struct WireLimits {
  std::size_t key_bytes = 8 << 10;
  std::size_t value_bytes = 8 << 20;
  std::size_t keys = 131'072;            ///< in one request
  std::size_t request_bytes = 64 << 20;  ///< below 4 GiB
};

/// One complete request. The views point into the bytes it was parsed from.
struct Request {
  /// A key or a value, as offset and length.
  struct Field {
    std::uint32_t offset;
    std::uint32_t length;
  };

  RequestType op = RequestType::validate;
  std::int64_t number = 0;  ///< delta (add), world size (barrier), nonce (ping)
  std::string_view bytes;   ///< the whole request
  std::span<const Field> fields;

  /// The keys and values in the order of the wire.
  std::string_view field(std::size_t i) const {
    return bytes.substr(fields[i].offset, fields[i].length);
  }
};

/// Finds requests in the bytes of one connection, however these were split. Looks at each byte of
/// framing once, and holds no bytes itself.
class RequestParser {
 public:
  enum class Status {
    complete,    ///< request() is valid until the next call
    incomplete,  ///< call again with the same bytes and those that came after them
    malformed,   ///< error() has the reason; nothing can follow
  };

  explicit RequestParser(const WireLimits& limits) : limits_(limits) {}

  /// `bytes` starts with the first byte after the last complete request. Its address may change
  /// between calls.
  Status next(std::string_view bytes);

  const Request& request() const { return request_; }
  const Error& error() const { return error_; }
  Dialect dialect() const { return dialect_; }

 private:
  bool decide_dialect(std::string_view bytes);
  Status begin(std::string_view bytes);
  Status fields(std::string_view bytes);
  Status read_number(std::string_view bytes, std::size_t width);
  Status read_length(std::string_view bytes, std::size_t limit, const char* what,
                     std::uint64_t& length);
  Status read_string(std::string_view bytes, std::size_t limit, const char* what);
  Status refuse(std::string sentence);

  WireLimits limits_;
  Dialect dialect_ = Dialect::undecided;
  const char* begin_repeat_ = nullptr;  // first step of the repeated fields
  const char* step_ = nullptr;          // next field of the layout; nullptr between requests
  std::uint64_t repeats_ = 0;           // items of a list still to come
  std::size_t position_ = 0;            // bytes of the request parsed so far
  std::vector<Request::Field> found_;
  Request request_{};
  Error error_{};
};

/// Appends a key or a value: its length and its bytes.
void append_bytes(std::string& out, std::string_view bytes);

}  // namespace ddprun::store
