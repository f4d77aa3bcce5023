// SPDX-License-Identifier: Apache-2.0
// Arbitrary frames from the other end of a tunnel. The connections that it opens and closes are
// bounded, and only its own bytes come through.
//
// Input: one byte, whether this end is the master's; then the stream.
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include "fuzz/target.h"
#include "rendezvous/access/tunnel_flow.h"
#include "rendezvous/access/tunnel_line.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using boost::asio::local::stream_protocol;
using boost::system::error_code;
using fuzz::require;

constexpr std::size_t kMostBytes = 60'000;  // a socket takes so many at once

void check_frame(std::string_view body) {
  const Result<TunnelFrame> frame = decode_tunnel_frame(body);
  if (!frame) return require(frame.error().code == Errc::protocol, "it is the sender's error");
  require(frame->bytes.size() <= kMaxTunnelPiece, "a piece is bounded");
  require(encode(*frame).substr(4) == body, "a frame is read as it is written");
}

/// This end of a tunnel, and the ends of its connections.
class End {
 public:
  explicit End(bool is_master) {
    stream_protocol::socket ours(io_);
    boost::asio::local::connect_pair(ours, other_);
    TunnelLine::Hooks hooks{nullptr, [this](const Error&) { line_.reset(); }};
    if (is_master) hooks.opened = [this](std::string_view) { return std::optional(connection()); };
    line_ = std::make_unique<TunnelLine>(std::move(ours), "", nullptr, std::move(hooks));
    if (is_master) return;
    for (int i = 0; i < 2; ++i) line_->carry(connection(), "hello", {});
  }

  void take(std::string_view bytes) {
    boost::asio::write(other_, boost::asio::buffer(bytes.substr(0, kMostBytes)));
    other_.shutdown(stream_protocol::socket::shutdown_send);
    while (line_) {
      require(line_->count() <= TunnelLine::kMostConnections, "connections are bounded");
      io_.run_one();
    }
  }

  /// The number of bytes that came out.
  std::size_t passed_on() {
    std::size_t all = 0;
    for (auto& local : locals_) {
      error_code ignored;
      all += local.available(ignored);
    }
    return all;
  }

 private:
  StreamSocket connection() {
    stream_protocol::socket ours(io_);
    boost::asio::local::connect_pair(ours, locals_.emplace_back(io_));
    return ours;
  }

  boost::asio::io_context io_{1};
  stream_protocol::socket other_{io_};
  std::list<stream_protocol::socket> locals_;
  std::unique_ptr<TunnelLine> line_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_frame(stream);
  End end(data[0] % 2 == 1);
  end.take(stream);
  require(end.passed_on() <= stream.size(), "nothing comes out that did not come in");
  return 0;
}
