// SPDX-License-Identifier: Apache-2.0
#include "store/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/byte_order.h"
#include "base/text.h"
#include "store/wire.h"

namespace ddprun::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Deadline = steady_clock::time_point;

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

/// Waits until the socket is ready for `events`. 0: the deadline passed.
int poll_until(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd entry{fd, events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 1 << 30)));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc != 0) return Error{Errc::usage, "cannot resolve " + host + ": " + ::gai_strerror(rc)};
  return AddressList(found, &::freeaddrinfo);
}

/// Tries one address once. unreachable carries the system's reason.
Result<Fd> connect_once(const addrinfo& address, Deadline deadline) {
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return os_error("socket", errno);
  int failure = 0;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) failure = errno;
  if (failure == EINPROGRESS) {
    if (poll_until(socket.get(), POLLOUT, deadline) <= 0) {
      return Error{Errc::timed_out, "no answer"};
    }
    socklen_t size = sizeof(failure);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  }
  if (failure != 0) return Error{Errc::unreachable, std::strerror(failure)};
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

/// Tries every address in turn; returns the last one's error.
Result<Fd> connect_any(const addrinfo* addresses, Deadline deadline) {
  Result<Fd> last = Error{Errc::unreachable, "no address"};
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    last = connect_once(*address, deadline);
    if (last) break;
  }
  return last;
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
  auto addresses = resolve(host, port);
  if (!addresses) return addresses.error();
  for (milliseconds pause = kFirstRetry;; pause = std::min(2 * pause, kLastRetry)) {
    auto socket = connect_any(addresses->get(), deadline);
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
  if (poll_until(socket_.get(), POLLIN, deadline) == 0) return false;
  auto reply = receive_byte(reply_deadline());
  if (!reply) return reply.error();
  if (*reply != kStopWaiting) return broken(Errc::protocol, "sent an unexpected reply to a wait");
  return true;
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
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (poll_until(socket_.get(), POLLOUT, deadline) == 0) {
        return broken(Errc::timed_out, "does not take requests");
      }
    } else if (errno != EINTR) {
      return broken(Errc::unreachable, std::string("connection lost: ") + std::strerror(errno));
    }
  }
  return {};
}

Result<> Client::receive(char* into, std::size_t size, Deadline deadline) {
  if (broken_) return *broken_;
  while (size > 0) {
    const ssize_t n = ::recv(socket_.get(), into, size, 0);
    if (n > 0) {
      into += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      return broken(Errc::unreachable, "connection closed by the server");
    } else if (errno == EAGAIN) {
      if (poll_until(socket_.get(), POLLIN, deadline) == 0) {
        return broken(Errc::timed_out, "no reply within " + seconds_text(reply_limit_));
      }
    } else if (errno != EINTR) {
      return broken(Errc::unreachable, std::string("connection lost: ") + std::strerror(errno));
    }
  }
  return {};
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

Error Client::broken(Errc code, const std::string& what) {
  broken_ = Error{code, "store at " + server_ + ": " + what};
  return *broken_;
}

}  // namespace ddprun::store
