// SPDX-License-Identifier: Apache-2.0
// NCCL, as far as libddp uses it, over the sockets of real processes: libnccl.so.2 where there is
// no GPU. Every rank sends each other what that needs, in the stream's turn. As the real one with
// blocking = 0, a communicator is in progress after each call, and may not be used before it was
// asked for; a failure leaves the stream standing until the communicator is aborted.
//
//   FAKE_NCCL_FAIL=R:N   on rank R of any communicator the N-th launch, from 1, fails
//   FAKE_NCCL_STUCK=R    rank R never connects

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <functional>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <poll.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "collectives/call.h"
#include "collectives/reduction.h"

namespace {

/// Data for, or from, another rank.
struct Part {
  int peer;
  std::vector<char> data;
};

struct Communicator;

/// One call. `finish` gets what came, in the order of `from`.
struct Call {
  std::function<std::vector<Part>()> to;  // reads the data, in the stream's turn
  std::vector<Part> from;                 // sizes count
  std::function<void(const std::vector<Part>& came)> finish;
  CUstream stream;
};

struct Communicator {
  int rank = 0;
  int size = 1;
  std::vector<int> sockets;  // by rank
  std::atomic<bool> is_aborted = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::vector<Call> calls;         // launched, but not yet in the stream
  std::atomic<int> questions = 0;  // until they are
  int launches = 0;
  std::atomic<int> under_way = 0;
  std::atomic<bool> is_finalized = false;
  std::thread connector;

  /// The others see it.
  void hang_up() {
    if (connector.joinable()) connector.join();
    for (const int socket : sockets) ::shutdown(socket, SHUT_RDWR);
  }
  ~Communicator() {
    if (connector.joinable()) connector.join();
    for (const int socket : sockets) ::close(socket);
  }
};

thread_local int group_depth = 0;
thread_local std::vector<std::shared_ptr<Communicator>> grouped;
std::mutex error_mutex;
std::string last_error;

void tell(const std::string& text) {
  const std::lock_guard lock(error_mutex);
  last_error = text;
}

sockaddr_un address_of(const ncclUniqueId& id, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "fake_nccl_" + std::string(id.internal) + "_" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: nothing to remove
  return address;
}

bool is_chosen(const char* variable, int rank) {
  const char* const told = std::getenv(variable);
  return told != nullptr && std::atoi(told) == rank;
}

void connect(Communicator& self, const ncclUniqueId& id) {
  constexpr auto kPause = std::chrono::milliseconds(1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un own = address_of(id, self.rank);
  (void)::bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
  ::listen(listener, self.size);
  const bool is_stuck = is_chosen("FAKE_NCCL_STUCK", self.rank);
  for (int other = 0; other < self.rank && !self.is_aborted && !is_stuck; ++other) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un theirs = address_of(id, other);
    while (!self.is_aborted &&
           ::connect(socket, reinterpret_cast<const sockaddr*>(&theirs), sizeof(theirs)) != 0) {
      std::this_thread::sleep_for(kPause);
    }
    ::send(socket, &self.rank, sizeof(self.rank), MSG_NOSIGNAL);
    self.sockets[static_cast<std::size_t>(other)] = socket;
  }
  for (int left = self.size - 1 - self.rank; (left > 0 || is_stuck) && !self.is_aborted;) {
    pollfd waits{listener, POLLIN, 0};
    if (is_stuck || ::poll(&waits, 1, 10) <= 0) {
      if (is_stuck) std::this_thread::sleep_for(kPause);
      continue;
    }
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    int other = 0;
    if (::recv(socket, &other, sizeof(other), MSG_WAITALL) != sizeof(other)) continue;
    self.sockets[static_cast<std::size_t>(other)] = socket;
    --left;
  }
  ::close(listener);
  if (!self.is_aborted) self.state = ncclSuccess;
}

/// Moves bytes both ways at once. False: another rank is gone, or this one gave up.
bool exchange(Communicator& self, const std::vector<std::vector<char>>& out,
              std::vector<std::vector<char>>& in) {
  const auto ranks = static_cast<std::size_t>(self.size);
  std::vector<std::size_t> sent(ranks);
  std::vector<std::size_t> received(ranks);
  while (!self.is_aborted) {
    std::vector<pollfd> waits;
    std::vector<std::size_t> whose;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      short events = 0;
      if (sent[rank] < out[rank].size()) events |= POLLOUT;
      if (received[rank] < in[rank].size()) events |= POLLIN;
      if (events == 0) continue;
      waits.push_back({self.sockets[rank], events, 0});
      whose.push_back(rank);
    }
    if (waits.empty()) return true;
    ::poll(waits.data(), waits.size(), 10);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const std::size_t rank = whose[i];
      if ((waits[i].revents & POLLOUT) != 0) {
        const ssize_t n = ::send(waits[i].fd, out[rank].data() + sent[rank],
                                 out[rank].size() - sent[rank], MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent[rank] += static_cast<std::size_t>(n);
      }
      if ((waits[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t n = ::recv(waits[i].fd, in[rank].data() + received[rank],
                               in[rank].size() - received[rank], MSG_DONTWAIT);
      if (n > 0) received[rank] += static_cast<std::size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    }
  }
  return false;
}

/// In a stream.
void perform(Communicator& self, const std::vector<Call>& calls, bool fails) {
  const auto ranks = static_cast<std::size_t>(self.size);
  std::vector<std::vector<char>> out(ranks);
  std::vector<std::vector<char>> in(ranks);
  for (const Call& call : calls) {
    for (const Part& part : call.to()) {
      auto& all = out[static_cast<std::size_t>(part.peer)];
      all.insert(all.end(), part.data.begin(), part.data.end());
    }
    for (const Part& part : call.from) {
      auto& all = in[static_cast<std::size_t>(part.peer)];
      all.resize(all.size() + part.data.size());
    }
  }
  if (fails || !exchange(self, out, in)) {
    tell(fails ? "made to fail" : "a connection ended");
    self.state = fails ? ncclSystemError : ncclRemoteError;
    while (!self.is_aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  std::vector<std::size_t> used(ranks);
  for (const Call& call : calls) {
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

struct Launch {
  std::shared_ptr<Communicator> self;
  std::vector<Call> calls;
  bool fails;
  bool is_counted;  // of a communicator's end; what a graph does is not
};

void put_into_stream(const std::shared_ptr<Communicator>& self) {
  const char* const told = std::getenv("FAKE_NCCL_FAIL");
  const std::string chosen = std::to_string(self->rank) + ":" + std::to_string(++self->launches);
  const CUstream stream = self->calls.front().stream;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(stream, &status);
  // For as long as the process: a graph may do it again.
  auto* const launch =
      new Launch{self, std::exchange(self->calls, {}), told != nullptr && told == chosen,
                 status == CU_STREAM_CAPTURE_STATUS_NONE};
  static std::vector<std::unique_ptr<Launch>> all;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all.emplace_back(launch);
  if (launch->is_counted) ++self->under_way;
  cuLaunchHostFunc(
      stream,
      [](void* data) {
        const auto& [communicator, calls, fails, is_counted] = *static_cast<Launch*>(data);
        perform(*communicator, calls, fails);
        if (is_counted) --communicator->under_way;
      },
      launch);
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Communicator> self;
};

namespace {

ncclResult_t add(ncclComm_t handle, Call call) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) {
    tell("used before it was settled");
    return ncclInvalidArgument;
  }
  self.calls.push_back(std::move(call));
  bool known = false;
  for (const auto& one : grouped) known = known || one == handle->self;
  if (!known) grouped.push_back(handle->self);
  return group_depth > 0 ? ncclSuccess : ncclInvalidUsage;  // libddp always groups
}

std::size_t width(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

ddp::internal::Reduction reduction_of(ncclDataType_t type, ncclRedOp_t op) {
  using ddp::DataType;
  using ddp::ReduceOp;
  const auto ours = [&] {
    switch (type) {
      case ncclInt8:
        return DataType::int8;
      case ncclUint8:
        return DataType::uint8;
      case ncclFloat16:
        return DataType::float16;
      case ncclBfloat16:
        return DataType::bfloat16;
      case ncclInt32:
        return DataType::int32;
      case ncclFloat32:
        return DataType::float32;
      case ncclFloat64:
        return DataType::float64;
      default:
        return DataType::int64;
    }
  }();
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                               ReduceOp::avg};
  return ddp::internal::reduction(ours, kOps[op]);
}

std::vector<char> bytes_at(const void* data, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  return {begin, begin + bytes};
}

/// The combination of this rank's elements, at `in`, and of the others'.
std::vector<char> combine(const Communicator& self, const void* in, std::size_t count,
                          const ddp::internal::Reduction& reduction, std::size_t element,
                          const std::vector<Part>& came) {
  std::vector<char> sums(count * reduction.sum_width);
  std::vector<char> result = bytes_at(in, count * element);
  reduction.load(sums.data(), result.data(), count);
  for (const Part& part : came) reduction.add(sums.data(), part.data.data(), count);
  reduction.store(result.data(), sums.data(), count, self.size);
  return result;
}

template <class Wants>
std::vector<int> others(const Communicator& self, Wants wants) {
  std::vector<int> ranks;
  for (int rank = 0; rank < self.size; ++rank) {
    if (rank != self.rank && wants(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Part> blank(const std::vector<int>& ranks, std::size_t bytes) {
  std::vector<Part> parts;
  for (const int rank : ranks) parts.push_back({rank, std::vector<char>(bytes)});
  return parts;
}

/// To `receivers`, a block at in + block(receiver) each.
template <class Place>
std::function<std::vector<Part>()> sends(const std::vector<int>& receivers, const void* in,
                                         std::size_t bytes, Place place) {
  return [=] {
    std::vector<Part> parts;
    for (const int rank : receivers) {
      parts.push_back({rank, bytes_at(static_cast<const char*>(in) + place(rank), bytes)});
    }
    return parts;
  };
}

constexpr auto kSamePlace = [](int /*rank*/) { return std::size_t{0}; };
constexpr auto kEveryone = [](int /*rank*/) { return true; };

void put(void* out, const std::vector<char>& data) {
  if (!data.empty()) std::memcpy(out, data.data(), data.size());
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  if (result == ncclRemoteError) return "remote process exited or there was a network error";
  return result == ncclInvalidArgument ? "invalid argument" : "an error of the fake NCCL";
}

const char* ncclGetLastError(ncclComm_t /*handle*/) {
  thread_local std::array<char, 256> copy;
  const std::lock_guard lock(error_mutex);
  copy[last_error.copy(copy.data(), copy.size() - 1)] = '\0';
  return copy.data();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string text = std::to_string(random()) + std::to_string(random());
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (context == nullptr || config->blocking != 0) return ncclInvalidUsage;
  *handle = new ncclComm{std::make_shared<Communicator>()};
  Communicator& self = *(*handle)->self;
  self.rank = rank;
  self.size = size;
  self.sockets.resize(static_cast<std::size_t>(size), -1);
  self.connector = std::thread([&self, id] { connect(self, id); });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  Communicator& self = *handle->self;
  *state = self.state;
  if (*state == ncclSuccess && self.questions > 0) {
    if (--self.questions == 0) put_into_stream(handle->self);
    *state = ncclInProgress;
  }
  if (*state == ncclSuccess && self.is_finalized && self.under_way > 0) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  handle->self->is_finalized = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  handle->self->hang_up();
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  handle->self->is_aborted = true;
  handle->self->hang_up();
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0 || grouped.empty()) return ncclSuccess;
  for (const auto& self : std::exchange(grouped, {})) self->questions = 2;
  return ncclInProgress;
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  const bool gives = self.rank == root;
  return add(handle, {sends(others(self, [=](int) { return gives; }), in, bytes, kSamePlace),
                      blank(others(self, [=](int rank) { return rank == root; }), bytes),
                      [=](const std::vector<Part>& came) {
                        if (!gives) put(out, came.front().data);
                      },
                      stream});
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  const bool gets = self.rank == root;
  return add(handle,
             {sends(others(self, [=](int rank) { return rank == root; }), in, bytes, kSamePlace),
              blank(others(self, [=](int) { return gets; }), bytes),
              [=, &self](const std::vector<Part>& came) {
                if (gets)
                  put(out, combine(self, in, count, reduction_of(type, op), width(type), came));
              },
              stream});
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  return add(
      handle,
      {sends(others(self, kEveryone), in, bytes, kSamePlace), blank(others(self, kEveryone), bytes),
       [=, &self](const std::vector<Part>& came) {
         put(out, combine(self, in, count, reduction_of(type, op), width(type), came));
       },
       stream});
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  return add(
      handle,
      {sends(others(self, kEveryone), in, bytes, kSamePlace), blank(others(self, kEveryone), bytes),
       [=, &self](const std::vector<Part>& came) {
         char* const begin = static_cast<char*>(out);
         std::memmove(begin + static_cast<std::size_t>(self.rank) * bytes, in, bytes);
         for (const Part& part : came) {
           put(begin + static_cast<std::size_t>(part.peer) * bytes, part.data);
         }
       },
       stream});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  const auto place = [bytes](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  return add(
      handle,
      {sends(others(self, kEveryone), in, bytes, place), blank(others(self, kEveryone), bytes),
       [=, &self](const std::vector<Part>& came) {
         const char* const own = static_cast<const char*>(in) + place(self.rank);
         put(out, combine(self, own, count, reduction_of(type, op), width(type), came));
       },
       stream});
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, CUstream stream) {
  return add(handle, {sends({peer}, in, count * width(type), kSamePlace),
                      {},
                      [](const std::vector<Part>& /*came*/) {},
                      stream});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, CUstream stream) {
  return add(handle, {[] { return std::vector<Part>(); }, blank({peer}, count * width(type)),
                      [=](const std::vector<Part>& came) { put(out, came.front().data); }, stream});
}

}  // extern "C"
