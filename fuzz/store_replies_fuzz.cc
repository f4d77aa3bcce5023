// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a store's replies to a worker. Each call returns, with received data or with
// an error after which the connection is no longer used.
//
// Input: one byte for how many calls and the first of them; then the replies, after the greeting's.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz/target.h"
#include "store/client.h"

namespace {

using namespace ddprun;
using fuzz::require;
using std::chrono::seconds;

constexpr std::size_t kMostBytes = 60'000;  // a socket takes so many at once

/// A store in this process that answers each client in the same way. One thread serves all inputs,
/// because starting one takes longer than most inputs.
class Door {
 public:
  Door() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto* any = reinterpret_cast<sockaddr*>(&address_);
    require(bind(fd_.get(), any, sizeof address_) == 0 && listen(fd_.get(), 8) == 0, "it listens");
    socklen_t length = sizeof address_;
    getsockname(fd_.get(), any, &length);
    std::thread([this] {
      for (;;) answer();
    }).detach();
  }

  std::uint16_t port() const { return ntohs(address_.sin_port); }

  /// Sets the bytes that the next client gets after its greeting, and no others.
  void reply_with(std::string_view replies) {
    const std::lock_guard lock(mutex_);
    replies_ = replies;
  }

 private:
  std::string replies() {
    const std::lock_guard lock(mutex_);
    return replies_;
  }

  void answer() {
    const Fd client(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto nonce = static_cast<std::uint32_t>(getpid());
    const std::string bytes = replies();
    send(client.get(), &nonce, sizeof nonce, MSG_NOSIGNAL);
    send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(client.get(), SHUT_WR);
    char requests[4096];
    while (recv(client.get(), requests, sizeof requests, 0) > 0) {
    }
  }

  sockaddr_in address_{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const Fd fd_;
  std::mutex mutex_;
  std::string replies_;
};

template <class T>
bool is_good(const Result<T>& result, std::size_t most) {
  if (!result) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    require(result->size() <= most, "a value is what came");
  }
  return true;
}

/// Makes a call; returns whether the connection can be used further.
bool call(store::Client& client, unsigned which, std::size_t most) {
  switch (which % 9) {
    case 0:
      return is_good(client.get("k", seconds(60)), most);
    case 1:
      return is_good(client.multi_get({"k", "l"}), most);
    case 2:
      return is_good(client.wait({"k"}, seconds(60)), most);
    case 3:
      return is_good(client.add("k", 1), most);
    case 4:
      return is_good(client.check({"k"}), most);
    case 5:
      return is_good(client.compare_set("k", "a", "b"), most);
    case 6:
      return is_good(client.delete_key("k"), most);
    case 7:
      return is_good(client.num_keys(), most);
    default:
      return is_good(client.set("k", "v"), most);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static Door& door = *new Door;  // never destroyed, as its thread does not end
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view replies = bytes.substr(0, kMostBytes);
  door.reply_with(replies);
  Result<store::Client> client =
      store::Client::connect("127.0.0.1", door.port(), seconds(60), seconds(60));
  require(client.has_value(), "the greeting is answered");
  for (unsigned i = 0; i < 1U + data[0] / 16U; ++i) {
    if (call(*client, data[0] + i, replies.size())) continue;
    require(!is_good(client->num_keys(), 0), "after an error there is no other reply");
    break;
  }
  return 0;
}
