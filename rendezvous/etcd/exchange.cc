// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/exchange.h"

#include <array>
#include <sstream>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

namespace ddprun::rendezvous::etcd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t kMostBody = 1024 * 1024;
constexpr std::uint32_t kMostHeader = 16 * 1024;

std::string request_text(const Exchange::Options& options, const Post& post) {
  http::request<http::string_body> request(http::verb::post, post.path, 11);
  request.set(http::field::host, options.server.text());
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!options.token.empty()) request.set(http::field::authorization, options.token);
  request.body() = post.body;
  request.prepare_payload();
  std::ostringstream text;
  text << request;
  return std::move(text).str();
}

}  // namespace

/// The state of operations under way, which may outlive this object.
struct Exchange::Line {
  std::optional<tcp::socket> socket;
  std::optional<TlsChannel> tls;
  std::string unsent;
  std::string sending;
  std::array<char, 8192> buffer;
  std::string received;  // not parsed yet
  http::response_parser<http::string_body> parser;
};

Exchange::Exchange(const asio::any_io_executor& executor, const Options& options, const Post& post,
                   Done done)
    : line_(std::make_shared<Line>()),
      done_(std::move(done)),
      timer_(executor),
      dialer_(executor, options.server, options.local,
              {.connected = [this](tcp::socket socket) { on_connected(std::move(socket)); },
               .failed = [this](const Error& error) { end(error); }}) {
  line_->parser.body_limit(kMostBody);
  line_->parser.header_limit(kMostHeader);
  line_->parser.eager(true);
  line_->unsent = request_text(options, post);
  if (options.tls) {
    line_->tls.emplace(options.tls, options.server.host);
    line_->tls->send(std::exchange(line_->unsent, {}));
  }
  timer_.expires_after(options.limit);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) end(Error{Errc::unreachable, "no answer"});
  });
  // Later, as it may fail at once, for example if no descriptor is left.
  asio::post(executor, [this, limit = options.limit, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) dialer_.dial(limit);
  });
}

Exchange::~Exchange() {
  error_code ignored;
  if (line_->socket) line_->socket->close(ignored);
}

void Exchange::on_connected(tcp::socket socket) {
  error_code gone;
  own_address_ = socket.local_endpoint(gone).address();
  line_->socket.emplace(std::move(socket));
  write();
  read();
}

void Exchange::write() {
  if (line_->tls) line_->unsent += line_->tls->take_output();
  if (!line_->sending.empty() || line_->unsent.empty()) return;
  line_->sending = std::exchange(line_->unsent, {});
  asio::async_write(
      *line_->socket, asio::buffer(line_->sending),
      [this, line = line_, alive = std::weak_ptr(alive_)](error_code failure, size_t) {
        line->sending.clear();
        // An answer that came before the server closed the connection says more.
        if (!alive.expired() && !failure) write();
      });
}

void Exchange::read() {
  line_->socket->async_read_some(
      asio::buffer(line_->buffer),
      [this, line = line_, alive = std::weak_ptr(alive_)](error_code failure, size_t size) {
        if (!alive.expired()) on_read(failure, size);
      });
}

void Exchange::on_read(const error_code& failure, size_t size) {
  const bool is_end = failure == asio::error::eof;
  if (failure && !is_end) return lose(failure.message());
  if (const Result<> taken = take({line_->buffer.data(), size}); !taken) return end(taken.error());
  const bool may_end = !line_->tls || line_->tls->is_ended();  // else it may have been cut
  if (error_code broken; is_end && may_end && line_->parser.is_header_done()) {
    line_->parser.put_eof(broken);
  }
  end_if_complete();
  if (!done_) return;
  if (is_end) return lose("it closed the connection without an answer");
  write();
  read();
}

/// Errors: usage, unreachable.
Result<> Exchange::take(std::string_view bytes) {
  is_answered_ = is_answered_ || !bytes.empty();
  if (line_->tls) {
    if (const Result<> taken = line_->tls->receive(bytes); !taken) return taken;
    line_->received += line_->tls->take_received();
  } else {
    line_->received += bytes;
  }
  error_code failure;
  if (line_->received.empty() || line_->parser.is_done()) return {};
  const size_t parsed = line_->parser.put(asio::buffer(line_->received), failure);
  line_->received.erase(0, parsed);
  // The rest is a part of a header, of a chunk's head, or of a trailer.
  if (line_->received.size() > kMostHeader)
    return Error{Errc::unreachable, "its answer has no end"};
  if (!failure || failure == http::error::need_more) return {};
  return Error{Errc::unreachable, failure.message()};
}

void Exchange::end_if_complete() {
  if (!line_->parser.is_done()) return;
  auto& message = line_->parser.get();
  end(Reply{message.result_int(), std::move(message.body()), own_address_});
}

void Exchange::lose(const std::string& reason) {
  if (line_->tls) return end(line_->tls->lost(reason));
  end(Error{Errc::unreachable,
            reason + (is_answered_ ? "" : " (does it speak TLS? --rdzv_conf protocol=https)")});
}

void Exchange::end(Result<Reply> reply) {
  const Done done = std::exchange(done_, nullptr);
  if (done) done(std::move(reply));
}

}  // namespace ddprun::rendezvous::etcd
