// SPDX-License-Identifier: Apache-2.0
#include "store/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/blocking_io.h"
#include "base/byte_order.h"
#include "base/text.h"
#include "store/wire.h"

namespace ddprun::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstRetry{5};
constexpr milliseconds kLastRetry{500};
constexpr std::int64_t kMaxReply = 64 << 20;  // longer: another protocol, or a broken server
constexpr std::int64_t kAtOnce = 64 << 10;    // allocated before the bytes have come

/// One request under construction.
class Outgoing {
 public:
  explicit Outgoing(RequestType type) { bytes_.push_back(static_cast<char>(type)); }

  Outgoing& integer(std::uint64_t value, std::size_t size = 8) {
    append_little_endian(bytes_, value, size);
    return *this;
  }
  Outgoing& string(std::string_view value) {
    append_bytes(bytes_, value);
    return *this;
  }
  Outgoing& strings(const std::vector<std::string>& values) {
    integer(values.size());
    for (const std::string& value : values) string(value);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

std::uint32_t own_nonce() {
  return static_cast<std::uint32_t>(::getpid());
}

/// Tries every address in turn. unreachable carries the system's reason for the last one.
Result<Fd> connect_any(const addrinfo& addresses, Deadline deadline) {
  Fd socket;
  const int error = connect_to(addresses, deadline, socket);
  if (error == 0) return socket;
  if (!socket) return os_error("socket", error);
  return Error{Errc::unreachable, error == ETIMEDOUT ? "no answer" : std::strerror(error)};
}

std::string numeric_local_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

std::string seconds_text(milliseconds limit) {
  if (limit.count() % 1000 != 0) return std::to_string(limit.count()) + " ms";
  return std::to_string(limit.count() / 1000) + " s";
}

}  // namespace

Client::Client(Fd socket, std::string server, milliseconds reply_limit)
    : socket_(std::move(socket)),
      server_(std::move(server)),
      local_address_(numeric_local_address(socket_.get())),
      reply_limit_(reply_limit) {}

Result<Client> Client::connect(const std::string& host, std::uint16_t port, milliseconds limit,
                               milliseconds reply_limit,
                               const std::function<bool()>& is_pointless) {
  const Deadline deadline = steady_clock::now() + limit;
  const std::string server = endpoint_text(host, port);
  const auto addresses = resolve(host, port);
  if (!addresses) return Error{addresses.error()}.in("cannot resolve " + host);
  for (milliseconds pause = kFirstRetry;; pause = std::min(2 * pause, kLastRetry)) {
    auto socket = connect_any(**addresses, deadline);
    std::string reason;
    if (socket) {
      Client client(std::move(*socket), server, reply_limit);
      auto greeted = client.greet(deadline);
      if (greeted) return client;
      if (greeted.error().code == Errc::protocol) return greeted.error();
      const bool is_silent = greeted.error().code == Errc::timed_out;
      reason = is_silent ? "store at " + server + ": it accepts connections, but does not answer"
                         : greeted.error().message;
    } else {
      reason = "store at " + server + ": " + socket.error().message;
      if (socket.error().code == Errc::system)
        return Error{Errc::system, "cannot reach the " + reason};
    }
    // The server may start later than this client, so refused connections are retried.
    if (steady_clock::now() + pause >= deadline || (is_pointless && is_pointless())) {
      return Error{Errc::timed_out,
                   "cannot reach the " + reason + " (tried for " + seconds_text(limit) + ")"};
    }
    std::this_thread::sleep_for(pause);
  }
}

Result<> Client::greet(Deadline deadline) {
  const std::string hello = Outgoing(RequestType::validate).integer(kStoreMagic, 4).bytes() +
                            Outgoing(RequestType::ping).integer(own_nonce(), 4).bytes();
  if (auto sent = send(hello, deadline); !sent) return sent;
  return receive_echo(own_nonce(), deadline);
}

/// Receives the answer to a ping.
Result<> Client::receive_echo(std::uint32_t nonce, Deadline deadline) {
  std::array<char, 4> echo{};
  if (auto got = receive(echo.data(), echo.size(), deadline); !got) return got;
  if (little_endian({echo.data(), echo.size()}) != nonce)
    return broken(Errc::protocol, "is not a store");
  return {};
}

Result<> Client::send_and_confirm(std::string request) {
  const Deadline deadline = reply_deadline();
  request += Outgoing(RequestType::ping).integer(own_nonce(), 4).bytes();
  if (auto sent = send(request, deadline); !sent) return sent;
  return receive_echo(own_nonce(), deadline);
}

Result<> Client::set(std::string_view key, std::string_view value) {
  return send_and_confirm(Outgoing(RequestType::set).string(key).string(value).take());
}

Result<> Client::append(std::string_view key, std::string_view suffix) {
  return send_and_confirm(Outgoing(RequestType::append).string(key).string(suffix).take());
}

Result<> Client::multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  Outgoing request(RequestType::multi_set);
  request.integer(entries.size());
  for (const auto& [key, value] : entries) request.string(key).string(value);
  return send_and_confirm(request.take());
}

Result<std::string> Client::get(std::string_view key, milliseconds limit) {
  if (auto there = wait({std::string(key)}, limit); !there) return there.error();
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::get).string(key).bytes(), deadline);
  if (!sent) return sent.error();
  return receive_string(deadline, kMaxReply);
}

Result<std::vector<std::string>> Client::multi_get(const std::vector<std::string>& keys) {
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::multi_get).strings(keys).bytes(), deadline);
  if (!sent) return sent.error();
  std::vector<std::string> values;
  std::int64_t room = kMaxReply;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = receive_string(deadline, room);
    if (!value) return value.error();
    room -= static_cast<std::int64_t>(value->size());
    values.push_back(std::move(*value));
  }
  return values;
}

Result<> Client::wait(const std::vector<std::string>& keys, milliseconds limit) {
  auto sent = send(Outgoing(RequestType::wait).strings(keys).bytes(), reply_deadline());
  if (!sent) return sent;
  auto there = wait_ended(steady_clock::now() + limit);
  if (!there) return there.error();
  if (*there) return {};
  auto canceled = cancel_wait();
  if (!canceled) return canceled;
  return Error{Errc::timed_out, "timed out after " + seconds_text(limit) + " waiting for " +
                                    (keys.size() == 1 ? "key " : "keys ") + keys.front() +
                                    (keys.size() == 1 ? "" : ", ...") + " at " + server_};
}

/// True: the keys exist. False: the deadline passed and nothing was read.
Result<bool> Client::wait_ended(Deadline deadline) {
  char reply = 0;
  const int error = receive_all(socket_, {&reply, 1}, deadline);
  if (error == ETIMEDOUT) return false;
  if (error != 0) return broken_by(error);
  if (static_cast<std::uint8_t>(reply) == kStopWaiting) return true;
  return broken(Errc::protocol, "sent an unexpected reply to a wait");
}

/// Cancels a wait. If its reply crossed the request, two bytes come.
Result<> Client::cancel_wait() {
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::cancel_wait).bytes(), deadline);
  if (!sent) return sent;
  auto reply = receive_byte(deadline);
  if (reply && *reply == kStopWaiting) reply = receive_byte(deadline);
  if (!reply) return reply.error();
  if (*reply != kWaitCanceled)
    return broken(Errc::protocol, "sent an unexpected reply to a cancelled wait");
  return {};
}

Result<std::int64_t> Client::add(std::string_view key, std::int64_t delta) {
  const Deadline deadline = reply_deadline();
  Outgoing request(RequestType::add);
  request.string(key).integer(static_cast<std::uint64_t>(delta));
  auto sent = send(request.bytes(), deadline);
  if (!sent) return sent.error();
  return receive_integer(deadline);
}

Result<bool> Client::check(const std::vector<std::string>& keys) {
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::check).strings(keys).bytes(), deadline);
  if (!sent) return sent.error();
  auto reply = receive_byte(deadline);
  if (!reply) return reply.error();
  return *reply == kAllPresent;
}

Result<std::string> Client::compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired) {
  const Deadline deadline = reply_deadline();
  Outgoing request(RequestType::compare_set);
  request.string(key).string(expected).string(desired);
  auto sent = send(request.bytes(), deadline);
  if (!sent) return sent.error();
  return receive_string(deadline, kMaxReply);
}

Result<bool> Client::delete_key(std::string_view key) {
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::delete_key).string(key).bytes(), deadline);
  if (!sent) return sent.error();
  auto removed = receive_integer(deadline);
  if (!removed) return removed.error();
  return *removed != 0;
}

Result<std::int64_t> Client::num_keys() {
  const Deadline deadline = reply_deadline();
  auto sent = send(Outgoing(RequestType::get_num_keys).bytes(), deadline);
  if (!sent) return sent.error();
  return receive_integer(deadline);
}

Result<> Client::send(std::string_view bytes, Deadline deadline) {
  if (broken_) return *broken_;
  const int error = send_all(socket_, bytes, deadline);
  if (error == 0) return {};
  if (error == ETIMEDOUT) return broken(Errc::timed_out, "does not take requests");
  return broken_by(error);
}

Result<> Client::receive(char* into, std::size_t size, Deadline deadline) {
  if (broken_) return *broken_;
  const int error = receive_all(socket_, {into, size}, deadline);
  if (error == 0) return {};
  if (error != ETIMEDOUT) return broken_by(error);
  return broken(Errc::timed_out, "no reply within " + seconds_text(reply_limit_));
}

Result<std::uint8_t> Client::receive_byte(Deadline deadline) {
  char byte = 0;
  if (auto got = receive(&byte, 1, deadline); !got) return got.error();
  return static_cast<std::uint8_t>(byte);
}

Result<std::int64_t> Client::receive_integer(Deadline deadline) {
  std::array<char, 8> bytes{};
  if (auto got = receive(bytes.data(), bytes.size(), deadline); !got) return got.error();
  return static_cast<std::int64_t>(little_endian({bytes.data(), bytes.size()}));
}

/// Receives a string of at most `limit` bytes. A length alone allocates little: memory for a long
/// string grows with the bytes that have come.
Result<std::string> Client::receive_string(Deadline deadline, std::int64_t limit) {
  auto size = receive_integer(deadline);
  if (!size) return size.error();
  if (*size < 0 || *size > limit) return broken(Errc::protocol, "sent an invalid length");
  std::string value;
  std::int64_t piece = kAtOnce;
  for (std::int64_t had = 0; had < *size; had += piece) {
    piece = std::min(*size - had, std::max(kAtOnce, had));
    value.resize(static_cast<std::size_t>(had + piece));
    auto got = receive(value.data() + had, static_cast<std::size_t>(piece), deadline);
    if (!got) return got.error();
  }
  return value;
}

Error Client::broken_by(int error) {
  if (error == ENODATA) return broken(Errc::unreachable, "connection closed by the server");
  return broken(Errc::unreachable, std::string("connection lost: ") + std::strerror(error));
}

Error Client::broken(Errc code, const std::string& what) {
  broken_ = Error{code, "store at " + server_ + ": " + what};
  return *broken_;
}

}  // namespace ddprun::store
