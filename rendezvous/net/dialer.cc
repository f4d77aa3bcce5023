// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/dialer.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

Dialer::Dialer(asio::any_io_executor executor, Endpoint endpoint,
               std::optional<asio::ip::address> local, Hooks hooks)
    : endpoint_(std::move(endpoint)),
      local_(std::move(local)),
      hooks_(std::move(hooks)),
      resolver_(executor),
      socket_(executor),
      limit_(executor) {}

void Dialer::dial(std::chrono::milliseconds limit) {
  if (attempt_) return;
  attempt_ = std::make_shared<char>();
  each_ = limit;
  error_code not_an_address;
  const auto address = asio::ip::make_address(endpoint_.host, not_an_address);
  if (!not_an_address) {
    addresses_ = {{address, endpoint_.port}};
    return try_next();
  }
  resolver_.resolve(endpoint_, [this, attempt = std::weak_ptr(attempt_)](auto addresses) {
    if (attempt.expired()) return;
    if (!addresses) return fail(addresses.error().message);
    addresses_ = std::move(*addresses);
    std::reverse(addresses_.begin(), addresses_.end());
    try_next();
  });
}

void Dialer::cancel() {
  attempt_.reset();
  limit_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void Dialer::try_next() {
  if (addresses_.empty()) return fail(std::exchange(reason_, {}));
  const Tcp::endpoint address = addresses_.back();
  addresses_.pop_back();
  attempt_ = std::make_shared<char>();  // ignore handlers of the address before
  if (const Result<> opened = open(address.protocol()); !opened) {
    return give_up_address(opened.error().message);
  }
  limit_.expires_after(each_);
  limit_.async_wait([this, attempt = std::weak_ptr(attempt_)](error_code) {
    if (!attempt.expired()) give_up_address("no answer");
  });
  socket_.async_connect(address, [this, attempt = std::weak_ptr(attempt_)](error_code failure) {
    if (!attempt.expired()) on_tried(failure);
  });
}

Result<> Dialer::open(const Tcp& protocol) {
  error_code failure;
  socket_.close(failure);
  socket_.open(protocol, failure);
  if (!failure && local_) socket_.bind({*local_, 0}, failure);
  if (!failure) return {};
  return os_error(local_ ? "cannot connect from " + local_->to_string() : "cannot open a socket",
                  failure.value());
}

void Dialer::on_tried(const error_code& failure) {
  if (failure) return give_up_address(failure.message());
  // If no server listens at an ephemeral port, a socket may get that port and reach itself.
  error_code gone;
  if (socket_.local_endpoint(gone) == socket_.remote_endpoint(gone)) {
    return give_up_address("no server listens there");
  }
  attempt_.reset();
  limit_.cancel();
  hooks_.connected(std::move(socket_));
}

void Dialer::give_up_address(std::string reason) {
  reason_ = std::move(reason);
  limit_.cancel();
  error_code ignored;
  socket_.close(ignored);
  try_next();
}

void Dialer::fail(std::string reason) {
  attempt_.reset();
  hooks_.failed({Errc::unreachable, std::move(reason)});
}

}  // namespace ddprun::rendezvous
