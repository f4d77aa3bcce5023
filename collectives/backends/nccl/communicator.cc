// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/nccl/group.h"
#include "collectives/backends/nccl/library.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

constexpr const char* kWhere = "while connecting through NCCL";

/// NCCL has no other way of telling.
template <class Question>
void ask_until(Question is_answered) {
  using std::chrono::microseconds;
  for (microseconds pause(10); !is_answered(); pause = std::min(2 * pause, microseconds(1000))) {
    std::this_thread::sleep_for(pause);
  }
}

/// What NCCL returned, on its way out of the calls of launch().
struct Refusal {
  ncclResult_t result;
};

}  // namespace

NcclCommunicator::NcclCommunicator(GroupContext context, int device)
    : context_(std::move(context)), device_(device) {
  const OnDevice here(device_);
  int lowest = 0;
  int highest = 0;
  check_cuda(cuda().cuCtxGetStreamPriorityRange(&lowest, &highest), "cuCtxGetStreamPriorityRange");
  // Before the program's own kernels, which would keep the other ranks waiting, too.
  check_cuda(cuda().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, highest),
             "cuStreamCreateWithPriority");
}

NcclCommunicator::~NcclCommunicator() {
  abort_handle(nullptr);
  cuda().cuStreamDestroy(stream_);
}

void NcclCommunicator::watch(std::function<void(const Error& error)> failed) {
  const std::lock_guard lock(mutex_);
  failed_ = std::move(failed);
}

void NcclCommunicator::connect() {
  const OnDevice here(device_);
  try {
    begin_to_connect(meet());
    settle(kWhere);
  } catch (const Error& error) {
    set_failure(error);
    abort_handle(nullptr);
    throw;
  }
}

void NcclCommunicator::connect_together(std::span<const std::shared_ptr<NcclCommunicator>> ranks) {
  ncclUniqueId id;
  if (const auto result = nccl().ncclGetUniqueId(&id); result != ncclSuccess) {
    throw Error(ranks.front()->fail(kWhere, result));
  }
  NcclGroup::run([&] {
    for (const auto& rank : ranks) {
      const OnDevice here(rank->device_);
      rank->begin_to_connect(id);
    }
  });
  const auto began = std::chrono::steady_clock::now();
  // All of them each time: those before one that fails wait for it.
  ask_until([&] {
    const auto waits = [&](const auto& rank) { return !rank->is_settled(kWhere, began); };
    return std::ranges::count_if(ranks, waits) == 0;
  });
}

/// NCCL itself waits without an end for a rank that does not come, so it is not begun before all
/// have said that they do.
ncclUniqueId NcclCommunicator::meet() {
  ncclUniqueId id;
  const bool first = context_.rank == 0;
  if (first) {
    const auto result = nccl().ncclGetUniqueId(&id);
    if (result != ncclSuccess) throw Error(fail(kWhere, result));
  }
  if (context_.size == 1) return id;
  const std::string key = context_.prefix + "nccl/joined/";
  const std::string told = first ? std::string(id.internal, sizeof(id.internal)) : "";
  ask_store(context_, [&](Store& store) { store.set(key + std::to_string(context_.rank), told); });
  wait_for_everyone(context_, "nccl/joined");
  if (first) return id;
  std::string text;
  ask_store(context_, [&](Store& store) { text = store.get(key + "0", context_.timeout); });
  if (text.size() != sizeof(id.internal)) {
    throw Error(
        fail(kWhere, ErrorKind::system, "finds no ncclUniqueId of this program in the store"));
  }
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

void NcclCommunicator::begin_to_connect(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    result = nccl().ncclCommInitRankConfig(&handle_, context_.size, id, context_.rank, &config);
  }
  if (result != ncclSuccess && result != ncclInProgress) throw Error(fail(kWhere, result));
}

void NcclCommunicator::launch(const std::string& where,
                              const std::function<void(ncclComm_t)>& calls) {
  std::optional<Refusal> refused;
  ncclResult_t started = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    NcclGroup::enlist(handle_);
    nccl().ncclGroupStart();
    try {
      calls(handle_);
    } catch (const Refusal& refusal) {
      refused = refusal;
    }
    started = nccl().ncclGroupEnd();
  }
  if (refused) throw Error(fail(where, refused->result));
  if (started != ncclSuccess && started != ncclInProgress) throw Error(fail(where, started));
  NcclGroup::after([this, where] { settle(where); });
}

void NcclCommunicator::accept(ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) throw Refusal{result};
}

ncclResult_t NcclCommunicator::state() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  if (handle_ == nullptr) return ncclSuccess;
  ncclResult_t told = ncclSuccess;
  const ncclResult_t result = nccl().ncclCommGetAsyncError(handle_, &told);
  return result == ncclSuccess ? told : result;
}

void NcclCommunicator::look_for_failure(const std::string& where) {
  const ncclResult_t result = state();
  if (result != ncclSuccess && result != ncclInProgress) throw Error(fail(where, result));
}

/// Until then a communicator may not be used (ncclInvalidArgument), nor an event be recorded: the
/// work may not be in the stream yet.
void NcclCommunicator::settle(const std::string& where) {
  const auto began = std::chrono::steady_clock::now();
  ask_until([&] { return is_settled(where, began); });
}

bool NcclCommunicator::is_settled(const std::string& where, Time began) {
  const ncclResult_t result = state();
  if (result == ncclSuccess) return true;
  if (result != ncclInProgress) throw Error(fail(where, result));
  if (is_overdue(began)) {
    throw Error(
        fail(where, ErrorKind::timed_out,
             "waited " + name_time(context_.timeout) + " in vain for the other ranks " + where));
  }
  return false;
}

/// Who watches knows the time that calls have now, and what the other ranks do.
bool NcclCommunicator::is_overdue(Time since) const {
  const std::lock_guard lock(mutex_);
  return !failed_ && std::chrono::steady_clock::now() - since > context_.timeout;
}

std::optional<Error> NcclCommunicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Error NcclCommunicator::fail(const std::string& where, ncclResult_t result) {
  const bool is_remote = result == ncclRemoteError;
  return fail(
      where, is_remote ? ErrorKind::peer_lost : ErrorKind::system,
      (is_remote ? "lost another rank " : "failed ") + where + ": NCCL: " + describe(result));
}

Error NcclCommunicator::fail(const std::string& where, ErrorKind kind,
                             const std::string& sentence) {
  if (const auto first = failure()) return *first;
  const std::string me = "ddp: rank " + std::to_string(context_.named(context_.rank)) + " ";
  // Told before the others see this communicator end.
  const Error error =
      context_.store ? agree_on(context_, where, kind, sentence) : Error(kind, me + sentence);
  if (!set_failure(error)) return failure().value_or(error);
  std::function<void(const Error& error)> failed;
  {
    const std::lock_guard lock(mutex_);
    failed = failed_;
  }
  if (failed) {
    failed(error);
  } else {
    abort_handle(nullptr);
  }
  return error;
}

Error NcclCommunicator::fail(const std::string& where, const Error& thrown) {
  std::string_view sentence = thrown.what();
  if (sentence.starts_with("ddp: ")) sentence.remove_prefix(5);
  return fail(where, thrown.kind(), "failed " + where + ": " + std::string(sentence));
}

/// False: there was one.
bool NcclCommunicator::set_failure(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = error;
  return true;
}

void NcclCommunicator::abort() noexcept {
  set_failure({ErrorKind::system, "ddp: rank " + std::to_string(context_.named(context_.rank)) +
                                      " gave up the group's calls"});
  abort_handle(shared_from_this());
}

/// `owner` keeps this for as long as NCCL takes, where that is not done before this returns.
void NcclCommunicator::abort_handle(std::shared_ptr<void> owner) noexcept {
  ncclComm_t handle = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::swap(handle, handle_);
  }
  if (handle != nullptr) NcclGroup::abort(handle, std::move(owner));
}

void NcclCommunicator::close() noexcept {
  const std::string where = "at the group's end";
  try {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ || handle_ == nullptr) return;
      const auto result = nccl().ncclCommFinalize(handle_);
      if (result != ncclSuccess && result != ncclInProgress) return;  // the destructor aborts
    }
    settle(where);
    ncclComm_t handle = nullptr;
    {
      const std::lock_guard lock(mutex_);
      std::swap(handle, handle_);
    }
    if (handle != nullptr) nccl().ncclCommDestroy(handle);
  } catch (const Error&) {
    // Broken by then; who leaves does not care.
  }
}

}  // namespace ddp::internal
