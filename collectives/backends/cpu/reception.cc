// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/reception.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddp::internal {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

/// How many unidentified connections to keep, besides three for every rank. Ranks identify
/// themselves at once.
constexpr std::size_t kMaxUnidentified = 64;

}  // namespace

CpuReception::CpuReception(boost::asio::io_context& context, RunLocked run_locked,
                           CpuListeners& listeners, int own, int ranks, Events events)
    : run_locked_(std::move(run_locked)),
      token_(listeners.at(own).token),
      own_(own),
      ranks_(ranks),
      events_(std::move(events)),
      acceptor_(context) {
  listeners.release_to(acceptor_);
  accept();
}

void CpuReception::close() noexcept {
  for (Accepted& each : accepted_) each.connection->close();
  error_code ignored;
  acceptor_.close(ignored);
}

void CpuReception::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    run_locked_([&] {
      if (error) return events_.on_failure(error.message());
      add_connection(std::move(socket));
      accept();
    });
  });
}

/// Closes the oldest unidentified connection if there are too many.
void CpuReception::limit_unidentified() {
  std::erase_if(accepted_, [](const Accepted& each) { return each.connection->is_closed(); });
  const auto is_unidentified = [](const Accepted& each) { return each.peer == nullptr; };
  const auto unidentified = std::ranges::count_if(accepted_, is_unidentified);
  const auto most = 3 * static_cast<std::size_t>(ranks_) + kMaxUnidentified;
  if (static_cast<std::size_t>(unidentified) < most) return;
  const auto oldest = std::ranges::find_if(accepted_, is_unidentified);
  oldest->connection->close();
  accepted_.erase(oldest);
}

void CpuReception::add_connection(tcp::socket socket) {
  limit_unidentified();
  set_socket_options(socket);
  Accepted& accepted = accepted_.emplace_back();
  accepted.connection = std::make_shared<RecvConnection>(
      std::move(socket), run_locked_,
      FrameReader::Events{
          .on_frame =
              [this, &accepted](const Frame& frame, const char* data) {
                return accepted.peer != nullptr ? accepted.peer->on_frame(frame, data)
                                                : on_first_frame(accepted, frame);
              },
          .destination = [&accepted](std::uint64_t number,
                                     std::size_t bytes) -> std::optional<char*> {
            return accepted.peer != nullptr ? accepted.peer->destination(number, bytes)
                                            : std::nullopt;
          },
          .on_data = [&accepted](std::uint64_t number,
                                 std::size_t bytes) { accepted.peer->on_data(number, bytes); },
      },
      [&accepted](const std::string& reason) {
        if (accepted.peer != nullptr) accepted.peer->on_closed(reason);
      });
  accepted.connection->open();
}

/// The first frame must be a hello or calls, with the rank of the sender and our token.
bool CpuReception::on_first_frame(Accepted& accepted, const Frame& frame) {
  const bool is_rank = frame.tag >= 0 && frame.tag < ranks_ && frame.tag != own_;
  if (frame.number != token_ || !is_rank) return false;
  if (frame.kind == Frame::Kind::calls) {
    events_.on_calls(frame.tag, accepted.connection->release());
    return true;
  }
  if (frame.kind != Frame::Kind::hello) return false;
  accepted.peer = events_.on_hello(frame.tag, accepted.connection);
  return accepted.peer != nullptr;
}

}  // namespace ddp::internal
