// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as the order that an agent on another host gets. An order is bounded, and is read
// as it is written.
//
// Input: one byte, then a first line ('h'), its part after name and version ('l'), or a body.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "fuzz/target.h"
#include "remote/launch_order.h"

namespace {

using namespace ddprun;
using namespace ddprun::remote;
using fuzz::require;

constexpr std::size_t kSecretLength = 7;

void check_head(std::string_view line) {
  const Result<Lengths> lengths = decode_head(line);
  if (!lengths)
    return require(printable(lengths.error().message) == lengths.error().message,
                   "an error can be printed");
  require(lengths->order <= kLongestOrder && lengths->secret <= kLongestSecret,
          "an order is bounded");
}

void check_lengths(std::string_view text) {
  const std::string empty = encode({});
  check_head(empty.substr(0, empty.find(' ', empty.find(' ') + 1) + 1) + std::string(text));
}

void check_body(std::string_view bytes) {
  const Result<Order> order = decode_body(bytes);
  if (!order) return require(order.error().code == Errc::protocol, "it is the sender's error");
  const std::string written = encode(*order, kSecretLength);
  const std::size_t end = written.find('\n');
  const std::string body = written.substr(end + 1);
  const Result<Lengths> lengths = decode_head(written.substr(0, end));
  if (body.size() > kLongestOrder) return require(!lengths, "an order is bounded");
  require(lengths && lengths->order == body.size() && lengths->secret == kSecretLength,
          "a first line is read as it is written");
  const Result<Order> again = decode_body(body);
  require(again && encode(*again, kSecretLength) == written, "an order is read as it is written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'h':
      check_head(text);
      break;
    case 'l':
      check_lengths(text);
      break;
    default:
      check_body(text);
  }
  return 0;
}
