// SPDX-License-Identifier: Apache-2.0
// The parts of NCCL that libddp uses, over the sockets of real processes: the libnccl.so.2 of
// machines without GPU. Every rank sends each other the data, in the stream's turn. Like the real
// NCCL with blocking = 0: after each call a communicator is in progress, and must be asked before
// its next use. The first call with a rank is in progress until that rank makes it, too. A failure
// stops the stream until the communicator is aborted. A group with a refused call starts none. An
// abort of what an open group uses ends the process. A communicator of ncclCommInitRank, which
// libddp does not use, blocks, and its calls need no group; with NCCL_COMM_BLOCKING=1 all
// communicators block.
//
//   FAKE_NCCL_FAIL=R:N   on rank R of any communicator the N-th launch, from 1, fails;
//                        R:0: to connect
//   FAKE_NCCL_REFUSE=R:N on rank R of any communicator the N-th call, from 1, is refused;
//                        R:0: the rank itself, before it connects
//   FAKE_NCCL_STUCK=R    rank R never connects; part:R: rank R of a part
//   FAKE_NCCL_BLOCK=R:N  on rank R of any communicator ncclGroupEnd() does not return from the N-th
//                        launch, from 1
//   FAKE_NCCL_TELL=1     prints each communicator's settings and number of ids, that one is split
//                        or shrunk, and what memory is registered
//   FAKE_NCCL_FULL=1     there is no memory to allocate
//   FAKE_NCCL_VERSION=N  as ncclGetVersion() has it; 22807 if it is not set

#include "tests/collectives/fake_gpu/nccl.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/collectives/fake_gpu/communicator.h"

using fake_gpu::Communicator;
using fake_gpu::die;
using fake_gpu::do_with_others;
using fake_gpu::refuse;
using fake_gpu::tells;

namespace {

thread_local int group_depth = 0;
thread_local std::vector<std::shared_ptr<Communicator>> grouped;
thread_local std::vector<std::shared_ptr<Communicator>> connecting;  // blocking ones, in the group
thread_local std::vector<ncclComm_t> aborted;                        // in the group that is open
thread_local ncclResult_t group_error = ncclSuccess;
std::mutex error_mutex;
std::string last_error;

int version() {
  const char* const value = std::getenv("FAKE_NCCL_VERSION");
  return value == nullptr ? NCCL_VERSION(2, 28, 7) : std::atoi(value);
}

bool is_call_chosen(const char* variable, int rank, int call) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value == std::to_string(rank) + ":" + std::to_string(call);
}

bool is_refused(int rank, int call) {
  return is_call_chosen("FAKE_NCCL_REFUSE", rank, call);
}

/// The variable overrides what a program asks for, as in NCCL.
bool is_told_to_block() {
  const char* const value = std::getenv("NCCL_COMM_BLOCKING");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

ncclComm_t make_rank(int size, int rank) {
  auto* const handle = new ncclComm{std::make_shared<Communicator>()};
  Communicator& self = *handle->self;
  self.is_blocking = is_told_to_block();
  self.rank = rank;
  self.size = size;
  self.sockets.resize(static_cast<std::size_t>(size), -1);
  self.greeters.resize(static_cast<std::size_t>(size), -1);
  self.met.resize(static_cast<std::size_t>(size));
  return handle;
}

void do_in_background(Communicator& self, std::function<void()> work) {
  self.state = ncclInProgress;
  if (self.connector.joinable()) self.connector.join();
  self.connector = std::thread(std::move(work));
}

void connect_part(Communicator& whole, ncclComm_t part, const ncclUniqueId& id) {
  whole.connecting_part = part->self.get();
  if (!whole.is_aborted) part->self->connect(id);
  whole.connecting_part = nullptr;
}

/// Derives the part's id from the whole's; the members find each other by it.
void split(Communicator& self, int color, int key, int number, ncclComm_t* made) {
  const std::vector<int> part = self.find_part(color, key);
  if (part.empty()) {
    fake_gpu::tell("a connection ended");
    self.state = ncclRemoteError;
    return;
  }
  if (color != NCCL_SPLIT_NOCOLOR) {
    const auto place = std::ranges::find(part, self.rank) - part.begin();
    ncclComm_t handle = make_rank(static_cast<int>(part.size()), static_cast<int>(place));
    ncclUniqueId id = self.id;
    const std::string name =
        std::string(id.internal) + "_" + std::to_string(number) + "_" + std::to_string(color);
    std::memcpy(id.internal, name.data(), name.size());
    connect_part(self, handle, id);
    *made = handle;
  }
  self.state = ncclSuccess;
}

/// Combines the ids, as ncclCommInitRankScalable needs.
ncclUniqueId combine(const ncclUniqueId* ids, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += std::string(ids[i].internal) + ",";
  ncclUniqueId id{};
  const std::string text = std::to_string(std::hash<std::string>()(all));
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

/// Connects to the other ranks of the calls made so far.
void meet_ranks(Communicator& self) {
  const std::vector<int> unmet = self.find_unmet();
  if (unmet.empty()) return;
  do_in_background(self, [&self, unmet] {
    if (self.meet(unmet)) {
      self.state = ncclSuccess;
    } else {
      fake_gpu::tell("a connection ended");
      self.state = ncclRemoteError;
    }
  });
}

/// Ends a group that blocks: one thread may have calls of several ranks.
ncclResult_t finish_blocking(const std::vector<std::shared_ptr<Communicator>>& all) {
  for (const auto& self : all) meet_ranks(*self);
  ncclResult_t result = ncclSuccess;
  for (const auto& self : all) {
    if (self->connector.joinable()) self->connector.join();
    if (self->state == ncclSuccess) {
      fake_gpu::put_into_stream(self);
    } else {
      result = self->state;
    }
  }
  return result;
}

/// The rest finds each other by the names of the excluded ranks.
void shrink(Communicator& self, const std::vector<int>& excluded, ncclComm_t* made) {
  const auto is_gone = [&](int rank) { return std::ranges::count(excluded, rank) > 0; };
  ncclUniqueId id = self.id;
  std::string name = std::string(id.internal) + "_without";
  int place = self.rank;
  for (const int rank : excluded) {
    name += "_" + std::to_string(rank);
    if (rank < self.rank) --place;
  }
  if (is_gone(self.rank)) die("shrunk by a rank that is excluded");
  std::memcpy(id.internal, name.data(), name.size());
  ncclComm_t handle = make_rank(self.size - static_cast<int>(excluded.size()), place);
  connect_part(self, handle, id);
  *made = handle;
  self.state = ncclSuccess;
}

/// The real NCCL does this in a thread of its own unless it blocks; there CU_STREAM_PER_THREAD is
/// another stream. Any thread may ask for the communicator's state, but the null stream is its
/// device's.
void launch(const std::shared_ptr<Communicator>& self) {
  const auto put = [&] {
    CUcontext context = self->context;
    cuCtxPushCurrent(context);
    fake_gpu::put_into_stream(self);
    cuCtxPopCurrent(&context);
  };
  if (self->calls.front().stream != CU_STREAM_PER_THREAD) return put();
  std::thread(put).join();
}

/// Waits for graphs, too, like the real NCCL.
void free(ncclComm_t handle) {
  while (fake_gpu::is_busy() || handle->self->graphs > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  handle->self->hang_up();
  fake_gpu::forget_registered(handle);
  delete handle;
}

}  // namespace

namespace fake_gpu {

void tell(const std::string& text) {
  const std::lock_guard lock(error_mutex);
  last_error = text;
}

bool tells() {
  return std::getenv("FAKE_NCCL_TELL") != nullptr;
}

void die(const char* why) {
  std::fprintf(stderr, "the fake NCCL: %s\n", why);
  std::abort();
}

ncclResult_t refuse(const char* why) {
  tell(why);
  if (group_error == ncclSuccess) group_error = ncclInvalidArgument;
  return ncclInvalidArgument;
}

ncclResult_t do_with_others(Communicator& self, std::function<void()> work) {
  do_in_background(self, std::move(work));
  if (!self.is_blocking) return ncclInProgress;
  self.connector.join();
  return self.state;
}

ncclResult_t add(ncclComm_t handle, Call call) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) return refuse("used before it was settled");
  if (std::ranges::count(grouped, handle->self) == 0) {
    grouped.push_back(handle->self);
    ++self.open_groups;
  }
  cuCtxGetCurrent(&self.context);
  if (is_refused(self.rank, ++self.asked)) return refuse("made to be refused");
  self.calls.push_back(std::move(call));
  if (group_depth > 0) return ncclSuccess;
  if (!self.is_blocking) return ncclInvalidUsage;  // libddp always uses groups
  ++group_depth;
  return ncclGroupEnd();
}

}  // namespace fake_gpu

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  if (result == ncclRemoteError) return "remote process exited or there was a network error";
  if (result == ncclInvalidUsage) return "invalid usage";
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

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int size, ncclUniqueId id, int rank) {
  *handle = make_rank(size, rank);
  Communicator& self = *(*handle)->self;
  self.is_blocking = true;
  self.connect(id);
  return self.state;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  CUdevice device = 0;
  const ncclConfig_t right = NCCL_CONFIG_INITIALIZER;
  if (config->magic != right.magic || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS || config->blocking != 0) return ncclInvalidUsage;
  if (is_refused(rank, 0)) return refuse("made to be refused");
  if (tells()) {
    std::printf("CGA %d, CTAs %d to %d, network %s\n", config->cgaClusterSize, config->minCTAs,
                config->maxCTAs, config->netName == nullptr ? "" : config->netName);
    std::printf(
        "shares %d, class %d, name %s, collnet %d, policy %d, NVLS %d, per peer %d, NVLink %d, "
        "shrinks %d\n",
        config->splitShare, config->trafficClass,
        config->commName == nullptr ? "" : config->commName, config->collnetEnable,
        config->CTAPolicy, config->nvlsCTAs, config->nChannelsPerNetPeer,
        config->nvlinkCentricSched, config->shrinkShare);
  }
  *handle = make_rank(size, rank);
  Communicator& self = *(*handle)->self;
  if (self.is_blocking && group_depth == 0) {
    self.connect(id);
    return self.state;
  }
  self.connector = std::thread([&self, id] { self.connect(id); });
  if (!self.is_blocking) return ncclInProgress;
  connecting.push_back((*handle)->self);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) return refuse("used before it was settled");
  if (config->blocking != 0) return ncclInvalidUsage;
  if (self.under_way > 0) die("split while calls are under way");
  if (tells()) std::printf("split %d %d\n", color, key);
  return do_with_others(self, [&self, color, key, made, number = ++self.splits] {
    split(self, color, key, number, made);
  });
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* handle, int size, int rank, int count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  if (count < 1 || count > size) return ncclInvalidArgument;
  if (tells()) std::printf("%d ids\n", count);
  return ncclCommInitRankConfig(handle, size, combine(ids, count), rank, config);
}

ncclResult_t ncclCommShrink(ncclComm_t handle, int* excluded, int count, ncclComm_t* made,
                            ncclConfig_t* config, int /*flags*/) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) return refuse("used before it was settled");
  if (config->blocking != 0 || count < 1) return ncclInvalidUsage;
  if (self.under_way > 0) die("shrunk while calls are under way");
  const std::vector<int> all(excluded, excluded + count);
  if (tells()) std::printf("shrunk by %d from %d\n", count, self.size);
  return do_with_others(self, [&self, all, made] { shrink(self, all, made); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  Communicator& self = *handle->self;
  *state = self.state;
  if (*state == ncclSuccess && self.questions > 0) {
    if (--self.questions == 0) launch(handle->self);
    *state = ncclInProgress;
  }
  if (*state == ncclSuccess && self.is_finalized && self.under_way > 0) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Communicator& self = *handle->self;
  self.is_finalized = true;
  fake_gpu::forget_registered(handle);
  if (!self.is_blocking) return ncclInProgress;
  while (self.under_way > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  handle->self->hang_up();
  fake_gpu::forget_registered(handle);
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle->self->open_groups > 0) die("aborted what an open group has calls of");
  handle->self->is_aborted = true;
  if (Communicator* const part = handle->self->connecting_part) part->is_aborted = true;
  if (group_depth > 0) {
    aborted.push_back(handle);
  } else {
    free(handle);
  }
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* number) {
  *number = version();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  for (ncclComm_t handle : std::exchange(aborted, {})) free(handle);
  for (const auto& self : connecting) self->connector.join();
  connecting.clear();
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  if (grouped.empty()) return error;
  bool is_in_progress = false;
  std::vector<std::shared_ptr<Communicator>> blocking;
  for (const auto& self : std::exchange(grouped, {})) {
    while (is_call_chosen("FAKE_NCCL_BLOCK", self->rank, self->launches + 1)) ::pause();
    --self->open_groups;
    if (error == ncclSuccess && self->is_blocking) {
      blocking.push_back(self);
    } else if (error == ncclSuccess) {
      self->questions = 2;
      meet_ranks(*self);
      is_in_progress = true;
    } else {
      self->calls.clear();
      self->state = error;
    }
  }
  if (!blocking.empty()) return finish_blocking(blocking);
  return is_in_progress ? ncclInProgress : error;
}

}  // extern "C"
