// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client.h"

#include <utility>

#include "rendezvous/endpoint.h"

namespace ddprun::rendezvous {

using boost::asio::ip::tcp;
using boost::system::error_code;

Client::Client(const boost::asio::any_io_executor& executor, const tcp::endpoint& server,
               std::string run_id, Hooks hooks)
    : server_(server), run_id_(std::move(run_id)), hooks_(std::move(hooks)), socket_(executor) {}

void Client::join(JoinRequest request) {
  const Message join = message::Join{run_id_, std::move(request)};
  if (connection_) return connection_->send(encode(join));
  socket_.async_connect(server_, [this, first = encode(join)](error_code failure) {
    if (failure == boost::asio::error::operation_aborted) return;
    if (!failure) return on_connected(first);
    const Endpoint where{server_.address().to_string(), server_.port()};
    hooks_.lost(Error{Errc::unreachable,
                      "cannot reach the master at " + where.text() + ": " + failure.message()});
  });
}

void Client::on_connected(const std::string& first_message) {
  connection_.emplace(std::move(socket_), std::string_view(),
                      ControlConnection::Hooks{
                          [this](std::string_view body) { on_frame(body); },
                          [this](Error error) {
                            hooks_.lost(std::move(error).in("lost the connection to the master"));
                          }});
  connection_->send(greeting() + first_message);
}

void Client::on_frame(std::string_view body) {
  Result<Letter> letter = decode_letter(body);
  if (!letter) return hooks_.lost(Error(letter.error()).in("the master sent nonsense"));
  hooks_.received(std::move(*letter));
}

void Client::fail(int round, Failure failure) {
  send(message::Fail{round, std::move(failure)});
}

void Client::succeed(int round) {
  send(message::Succeed{round});
}

void Client::leave() {
  send(message::Leave{});
}

void Client::send(const Message& message) {
  if (connection_) connection_->send(encode(message));
}

}  // namespace ddprun::rendezvous
