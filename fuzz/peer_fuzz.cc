// SPDX-License-Identifier: Apache-2.0
// The frames that another rank sends about messages. Whatever they are, CpuPeer writes only where a
// receive of this rank allows, and completes each message once.
//
// Input: the number of this rank's messages, modulo 8; for each a byte with bits for: sends, its
// length, its tag; then the stream of the other rank, after its hello.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/cpu/peer.h"
#include "fuzz/feed.h"
#include "fuzz/target.h"

namespace {

using namespace ddp::internal;
using ddprun::fuzz::feed;
using ddprun::fuzz::pieces_of;
using ddprun::fuzz::require;

constexpr std::size_t kRead = 4096;                                 // bytes per read
constexpr std::array<std::size_t, 4> kCounts = {0, 3, 40, 20'000};  // the last is a long message

/// This rank. Its connection to the other is never made: its sent data is ignored.
class Rank {
 public:
  ~Rank() { peer_.close(); }

  void begin(std::uint8_t bits) {
    auto& data = buffers_.emplace_back(kCounts.at(bits >> 1U & 3U));
    Message message;
    message.transfer = {.sends = (bits & 1U) != 0,
                        .tag = bits >> 3U & 3,
                        .type = ddp::DataType::float32,
                        .count = data.size(),
                        .data = data.data()};
    peer_.begin(open_.insert(open_.end(), message));
  }

  FrameReader::Events events() {
    return {
        [this](const Frame& frame, const char* data) {
          if (std::exchange(is_greeted_, true)) return peer_.on_frame(frame, data);
          peer_.on_connected(nullptr);
          return true;
        },
        [this](std::uint64_t number, std::size_t bytes) {
          return peer_.destination(number, bytes);
        },
        [this](std::uint64_t number, std::size_t bytes) { peer_.on_data(number, bytes); },
    };
  }

  bool has_failed() const { return has_failed_; }
  void end() {
    peer_.on_closed("its connection ended");
    require(has_failed_, "the end is told");
  }

 private:
  void complete(MessageAt message) {
    const auto is_it = [&](const Message& each) { return &each == &*message; };
    require(std::ranges::any_of(open_, is_it), "a message is completed once");
    require(message->moved == 0 || message->moved == message->bytes(),
            "a long message is complete");
    open_.erase(message);
  }

  boost::asio::io_context io_;
  std::list<std::vector<float>> buffers_;
  Messages open_;
  bool is_greeted_ = false;
  bool has_failed_ = false;
  const MemoryMark mark_{0};
  CpuPeer peer_{io_,
                [](const std::function<void()>& work) { work(); },
                {boost::asio::ip::address_v4::loopback(), 9},
                Frame{},
                mark_,
                0,
                *std::pmr::get_default_resource(),
                {.done = [this](MessageAt message) { complete(message); },
                 .mismatched = [this](MessageAt, const std::string&) { has_failed_ = true; },
                 .left = [this](MessageAt, const std::string&) { has_failed_ = true; },
                 .said_bye = [] {},
                 .ended = [] {},
                 .lost = [this](const std::string&) { has_failed_ = true; },
                 .overflowed = [this](std::size_t, std::int32_t) { has_failed_ = true; },
                 .changed = [] {},
                 .readable = [] {},
                 .may_use_rings = [] {}}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t messages = std::min<std::size_t>(data[0] % 8, size - 1);
  Rank rank;
  for (std::size_t i = 1; i <= messages; ++i) rank.begin(data[i]);
  FrameReader reader(rank.events());
  const Frame hello{.kind = Frame::Kind::hello};
  feed(reader, {reinterpret_cast<const char*>(&hello), sizeof(hello)}, sizeof(hello));
  std::string_view stream(reinterpret_cast<const char*>(data), size);
  stream.remove_prefix(1 + messages);
  for (const std::string_view next : pieces_of(stream, kRead)) {
    if (rank.has_failed() || !feed(reader, next, kRead)) break;  // nothing after that is read
  }
  rank.end();
  return 0;
}
