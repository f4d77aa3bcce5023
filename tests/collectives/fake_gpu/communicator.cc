// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/fake_gpu/communicator.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "tests/collectives/fake_gpu/stream.h"

namespace fake_gpu {
namespace {

sockaddr_un address_of(const ncclUniqueId& id, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "fake_nccl_" + std::string(id.internal) + "_" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: nothing to remove
  return address;
}

/// A part of a communicator has a longer id.
bool is_stuck_in_connect(const Communicator& self) {
  const char* const value = std::getenv("FAKE_NCCL_STUCK");
  const bool is_part = std::strchr(self.id.internal, '_') != nullptr;
  return value != nullptr && (is_part ? "part:" : "") + std::to_string(self.rank) == value;
}

/// Whether its current step fails: its launch, or the connection before it.
bool is_to_fail(const Communicator& self) {
  const char* const value = std::getenv("FAKE_NCCL_FAIL");
  return value != nullptr &&
         value == std::to_string(self.rank) + ":" + std::to_string(self.launches);
}

std::atomic<int> kernels = 0;

/// A call runs on a device while this lives.
struct Kernel {
  Kernel() { ++kernels; }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() { --kernels; }
};

struct Launch {
  std::shared_ptr<Communicator> self;
  std::vector<Call> calls;
  bool fails;
  bool is_counted;  // counts for a communicator's end; a graph's launch does not
};

}  // namespace

bool is_busy() {
  return kernels > 0;
}

Communicator::~Communicator() {
  if (connector.joinable()) connector.join();
  for (const int socket : sockets) ::close(socket);
  for (const int socket : greeters) ::close(socket);
}

void Communicator::hang_up() {
  if (connector.joinable()) connector.join();
  for (const int socket : sockets) ::shutdown(socket, SHUT_RDWR);
  for (const int socket : greeters) ::shutdown(socket, SHUT_RDWR);
}

void Communicator::connect(const ncclUniqueId& of) {
  id = of;
  constexpr auto kPause = std::chrono::milliseconds(1);
  if (is_to_fail(*this)) {
    tell("made to fail");
    state = ncclSystemError;
    return;
  }
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un own = address_of(id, rank);
  (void)::bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
  ::listen(listener, 2 * size);
  const bool is_stuck = is_stuck_in_connect(*this);
  for (int other = 0; other < rank && !is_aborted && !is_stuck; ++other) {
    for (const bool greets : {false, true}) {
      const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_un theirs = address_of(id, other);
      while (!is_aborted &&
             ::connect(socket, reinterpret_cast<const sockaddr*>(&theirs), sizeof(theirs)) != 0) {
        std::this_thread::sleep_for(kPause);
      }
      const int said[] = {rank, greets ? 1 : 0};
      ::send(socket, said, sizeof(said), MSG_NOSIGNAL);
      (greets ? greeters : sockets)[static_cast<std::size_t>(other)] = socket;
    }
  }
  for (int left = 2 * (size - 1 - rank); (left > 0 || is_stuck) && !is_aborted;) {
    pollfd waits{listener, POLLIN, 0};
    if (is_stuck || ::poll(&waits, 1, 10) <= 0) {
      if (is_stuck) std::this_thread::sleep_for(kPause);
      continue;
    }
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    int said[2] = {};
    if (::recv(socket, said, sizeof(said), MSG_WAITALL) != sizeof(said)) continue;
    (said[1] != 0 ? greeters : sockets)[static_cast<std::size_t>(said[0])] = socket;
    --left;
  }
  ::close(listener);
  if (!is_aborted) state = ncclSuccess;
}

/// Moves bytes both ways at once. Returns false if another rank is gone, or this one gave up.
bool Communicator::exchange(const std::vector<std::vector<char>>& out,
                            std::vector<std::vector<char>>& in) {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> sent(ranks);
  std::vector<std::size_t> received(ranks);
  while (!is_aborted) {
    std::vector<pollfd> waits;
    std::vector<std::size_t> peers;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      short events = 0;
      if (sent[peer] < out[peer].size()) events |= POLLOUT;
      if (received[peer] < in[peer].size()) events |= POLLIN;
      if (events == 0) continue;
      waits.push_back({sockets[peer], events, 0});
      peers.push_back(peer);
    }
    if (waits.empty()) return true;
    ::poll(waits.data(), waits.size(), 10);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const std::size_t peer = peers[i];
      if ((waits[i].revents & POLLOUT) != 0) {
        const ssize_t n = ::send(waits[i].fd, out[peer].data() + sent[peer],
                                 out[peer].size() - sent[peer], MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent[peer] += static_cast<std::size_t>(n);
      }
      if ((waits[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t n = ::recv(waits[i].fd, in[peer].data() + received[peer],
                               in[peer].size() - received[peer], MSG_DONTWAIT);
      if (n > 0) received[peer] += static_cast<std::size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    }
  }
  return false;
}

std::vector<int> Communicator::find_part(int color, int key) {
  const int own[] = {color, key};
  const char* const begin = reinterpret_cast<const char*>(own);
  const std::vector<char> mine(begin, begin + sizeof(own));
  std::vector<std::vector<char>> out(static_cast<std::size_t>(size), mine);
  std::vector<std::vector<char>> in = out;
  out[static_cast<std::size_t>(rank)].clear();
  std::vector<char> kept;
  in[static_cast<std::size_t>(rank)].swap(kept);
  if (!exchange(out, in)) return {};
  in[static_cast<std::size_t>(rank)].swap(kept);
  std::vector<std::pair<int, int>> keys_and_ranks;
  for (int other = 0; other < size; ++other) {
    int theirs[2];
    std::memcpy(theirs, in[static_cast<std::size_t>(other)].data(), sizeof(theirs));
    if (theirs[0] == color) keys_and_ranks.emplace_back(theirs[1], other);
  }
  std::ranges::sort(keys_and_ranks);
  std::vector<int> part;
  for (const auto& [_, other] : keys_and_ranks) part.push_back(other);
  return part;
}

std::vector<int> Communicator::find_unmet() const {
  std::vector<char> is_known = met;
  std::vector<int> all;
  const auto note = [&](int other) {
    if (std::exchange(is_known[static_cast<std::size_t>(other)], 1) == 0) all.push_back(other);
  };
  for (const Call& call : calls) {
    for (const int other : call.to.peers) note(other);
    for (const Part& part : call.from) note(part.peer);
  }
  return all;
}

bool Communicator::meet(const std::vector<int>& others) {
  const auto socket_to = [&](int other) { return greeters[static_cast<std::size_t>(other)]; };
  char greeting = 1;
  for (const int other : others) ::send(socket_to(other), &greeting, 1, MSG_NOSIGNAL);
  for (const int other : others) {
    pollfd waits{socket_to(other), POLLIN, 0};
    while (!is_aborted && ::poll(&waits, 1, 10) <= 0) continue;
    if (is_aborted || ::recv(waits.fd, &greeting, 1, 0) != 1) return false;
    met[static_cast<std::size_t>(other)] = 1;
  }
  return true;
}

void Communicator::perform(const std::vector<Call>& started, bool fails) {
  const Kernel runs;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::vector<char>> out(ranks);
  std::vector<std::vector<char>> in(ranks);
  for (const Call& call : started) {
    for (const Part& part : call.to.read()) {
      auto& all = out[static_cast<std::size_t>(part.peer)];
      all.insert(all.end(), part.data.begin(), part.data.end());
    }
    for (const Part& part : call.from) {
      auto& all = in[static_cast<std::size_t>(part.peer)];
      all.resize(all.size() + part.data.size());
    }
  }
  if (fails || !exchange(out, in)) {
    tell(fails ? "made to fail" : "a connection ended");
    state = fails ? ncclSystemError : ncclRemoteError;
    while (!is_aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  std::vector<std::size_t> used(ranks);
  for (const Call& call : started) {
    std::vector<Part> came = call.from;
    for (Part& part : came) {
      const auto peer = static_cast<std::size_t>(part.peer);
      std::copy_n(in[peer].begin() + static_cast<std::ptrdiff_t>(used[peer]), part.data.size(),
                  part.data.begin());
      used[peer] += part.data.size();
    }
    call.finish(came);
  }
}

void put_into_stream(const std::shared_ptr<Communicator>& self) {
  ++self->launches;
  const CUstream stream = self->calls.front().stream;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(stream, &status);
  // Kept for the life of the process: a graph may do it again.
  auto* const launch = new Launch{self, std::exchange(self->calls, {}), is_to_fail(*self),
                                  status == CU_STREAM_CAPTURE_STATUS_NONE};
  static std::vector<std::unique_ptr<Launch>> all;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all.emplace_back(launch);
  if (launch->is_counted) ++self->under_way;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) {
    ++self->graphs;
    stream->capture->users.emplace_back(self.get(), [self](void* /*user*/) { --self->graphs; });
  }
  cuLaunchHostFunc(
      stream,
      [](void* data) {
        const auto& [communicator, calls, fails, is_counted] = *static_cast<Launch*>(data);
        communicator->perform(calls, fails);
        if (is_counted) --communicator->under_way;
      },
      launch);
}

}  // namespace fake_gpu
