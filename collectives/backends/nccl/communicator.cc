// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/agreement/agreed_error.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/nccl/config.h"
#include "collectives/backends/nccl/group.h"
#include "collectives/backends/nccl/library.h"
#include "collectives/crash/end_limit.h"
#include "collectives/errors.h"
#include "collectives/time_limit.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;

constexpr const char* kWhere = "while connecting through NCCL";
constexpr const char* kPart = "while a part of the group connects through NCCL";

/// Is destroyed when an abort is done.
struct KeptUntilAborted {
  KeptUntilAborted(std::shared_ptr<void> communicator, std::promise<void> promise)
      : owner(std::move(communicator)), aborted(std::move(promise)) {}
  KeptUntilAborted(const KeptUntilAborted&) = delete;
  KeptUntilAborted& operator=(const KeptUntilAborted&) = delete;
  ~KeptUntilAborted() { aborted.set_value(); }

  std::shared_ptr<void> owner;
  std::promise<void> aborted;
};

/// Limits a function of NCCL that may never return, such as when NCCL_COMM_BLOCKING is 1 and
/// another rank does not come. Ends the process, where no watchdog would.
void limit_nccl(std::optional<EndLimit>& limit, const GroupContext& context, milliseconds timeout,
                const std::string& where) {
  const milliseconds more = limit_of_abort(timeout);
  const Error error = own_error(
      context, ErrorKind::timed_out,
      " timed out after " + name_time(timeout) + " waiting for the other ranks " + where +
          ". NCCL did not return within another " + name_time(more) + ": ending the process");
  limit.emplace(error.what(), timeout + more);
}

/// An error of NCCL, thrown from the calls of launch().
struct FailedCall {
  ncclResult_t result;
};

// Names of newer headers.
constexpr int kSymmetricWindow = 1;  // NCCL_WIN_COLL_SYMMETRIC
constexpr int kDefaultShrink = 0;    // NCCL_SHRINK_DEFAULT

}  // namespace

NcclCommunicator::NcclCommunicator(GroupContext context, int device)
    : context_(std::move(context)), timeout_(context_.timeout), device_(device) {
  const OnDevice here(device_);
  int lowest = 0;
  int highest = 0;
  check_cuda(cuda().cuCtxGetStreamPriorityRange(&lowest, &highest), "cuCtxGetStreamPriorityRange");
  // Runs ahead of the program's own kernels: a delay here delays the other ranks, too.
  check_cuda(cuda().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, highest),
             "cuStreamCreateWithPriority");
}

NcclCommunicator::~NcclCommunicator() {
  abort_handle(nullptr);
  if (const InContext here(device_.context()); here) cuda().cuStreamDestroy(stream_);
}

void NcclCommunicator::watch(std::function<void(const Error& error)> failed) {
  const std::lock_guard lock(failure_mutex_);
  failed_ = std::move(failed);
}

void NcclCommunicator::connect() {
  const OnDevice here(device_);
  try {
    std::vector<ncclUniqueId> ids = exchange_ids();
    begin_to_connect(ids);
    wait_until_settled(kWhere);
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
  std::optional<EndLimit> limit;
  limit_nccl(limit, ranks.front()->context_, ranks.front()->timeout_, kWhere);
  NcclGroup::run([&] {
    for (const auto& rank : ranks) {
      const OnDevice here(rank->device_);
      rank->begin_to_connect({&id, 1});
    }
  });
  limit.reset();
  const auto began = std::chrono::steady_clock::now();
  // Polls all each time: if one fails, those before it wait for it.
  poll_until([&] {
    const auto waits = [&](const auto& rank) { return !rank->is_settled(kWhere, began); };
    return std::ranges::count_if(ranks, waits) == 0;
  });
}

/// NCCL waits forever for a rank that does not join, so it is called only when all ranks have set
/// their keys in the store.
std::vector<ncclUniqueId> NcclCommunicator::exchange_ids() {
  const int each = ranks_per_id(context_.nccl, context_.size);
  ncclUniqueId own{};
  const bool makes_one = context_.rank % each == 0;
  if (makes_one) {
    const auto result = nccl().ncclGetUniqueId(&own);
    if (result != ncclSuccess) throw Error(fail(kWhere, result));
  }
  if (context_.size == 1) return {own};
  const std::string key = context_.prefix + "nccl/joined/" + std::to_string(context_.rank);
  const std::string value = makes_one ? std::string(own.internal, sizeof(own.internal)) : "";
  ask_store(context_, [&](Store& store) { store.set(key, value); });
  meet_ranks();
  return read_ids(each);
}

/// Reads all ids, in the same order on every rank.
std::vector<ncclUniqueId> NcclCommunicator::read_ids(int each) {
  std::vector<std::string> keys;
  for (int maker = 0; maker < context_.size; maker += each) {
    keys.push_back(context_.prefix + "nccl/joined/" + std::to_string(maker));
  }
  std::vector<std::string> texts;
  ask_store(context_, [&](Store& store) { texts = store.multi_get(keys, context_.timeout); });
  std::vector<ncclUniqueId> ids;
  for (const std::string& text : texts) {
    ncclUniqueId& id = ids.emplace_back();
    if (text.size() != sizeof(id.internal)) {
      throw Error(
          fail(kWhere, ErrorKind::system, "finds no ncclUniqueId of this program in the store"));
    }
    std::memcpy(id.internal, text.data(), text.size());
  }
  return ids;
}

/// Waits until all ranks come or the communicator fails. As when waiting for NCCL, the watcher
/// watches timeouts. There is no connection yet that would end if a rank gives the group up.
void NcclCommunicator::meet_ranks() {
  GroupContext patient = context_;
  if (is_watched()) patient.timeout = kForever;
  const auto check = [this] {
    throw_if_failed();
    const auto agreed = find_agreed_error(context_);
    if (agreed) throw Error(to_error(context_, kWhere, *agreed));
  };
  wait_for_all_ranks(patient, "nccl/joined", {.check = check});
}

void NcclCommunicator::begin_to_connect(std::span<ncclUniqueId> ids) {
  const int size = context_.size;
  const int rank = context_.rank;
  ncclConfig_t config = make_config(context_.nccl);
  ncclResult_t result = ncclSuccess;
  {
    std::optional<EndLimit> limit;
    if (!is_watched()) limit_nccl(limit, context_, timeout_, kWhere);
    const std::lock_guard lock(handle_mutex_);
    throw_if_failed();
    result = ids.size() == 1
                 ? nccl().ncclCommInitRankConfig(&handle_, size, ids.front(), rank, &config)
                 : nccl().ncclCommInitRankScalable(
                       &handle_, size, rank, static_cast<int>(ids.size()), ids.data(), &config);
  }
  if (result != ncclSuccess && result != ncclInProgress) throw Error(fail(kWhere, result));
}

void NcclCommunicator::request(const std::string& where, bool is_call,
                               const std::function<ncclResult_t(ncclComm_t)>& ask) {
  const OnDevice here(device_);
  const auto began = std::chrono::steady_clock::now();
  ncclResult_t result = ncclSuccess;
  {
    std::optional<EndLimit> limit;
    if (!is_call) limit_nccl(limit, context_, timeout_, where);
    const std::lock_guard lock(handle_mutex_);
    throw_if_failed();
    result = ask(handle_);
  }
  if (result != ncclSuccess && result != ncclInProgress) throw Error(fail(where, result));
  poll_until([&] {
    if (is_settled(where, began)) return true;
    if (std::chrono::steady_clock::now() - began > timeout_.load()) throw Error(time_out(where));
    return false;
  });
}

void NcclCommunicator::split(int color, int key, NcclCommunicator* part) {
  ncclConfig_t config = make_config(context_.nccl);
  request(kPart, false, [&](ncclComm_t whole) {
    return nccl().ncclCommSplit(whole, color, key, &part_, &config);
  });
  if (part != nullptr) part->take(std::exchange(part_, nullptr));
}

void NcclCommunicator::shrink(std::vector<int> excluded, NcclCommunicator& part) {
  ncclConfig_t config = make_config(context_.nccl);
  request(kPart, false, [&](ncclComm_t whole) {
    return nccl().ncclCommShrink(whole, excluded.data(), static_cast<int>(excluded.size()), &part_,
                                 &config, kDefaultShrink);
  });
  part.take(std::exchange(part_, nullptr));
}

NcclCommunicator::Registration NcclCommunicator::register_memory(void* memory, std::size_t bytes) {
  Registration made;
  const bool has_windows = nccl().ncclCommWindowRegister != nullptr;
  const bool is_apart = context_.store != nullptr || context_.size == 1;
  request("while memory is registered with NCCL", true, [&](ncclComm_t handle) {
    if (!has_windows || !is_apart) {
      return nccl().ncclCommRegister(handle, memory, bytes, &made.handle);
    }
    return nccl().ncclCommWindowRegister(handle, memory, bytes, &window_, kSymmetricWindow);
  });
  made.window = std::exchange(window_, nullptr);
  return made;
}

void NcclCommunicator::deregister(const Registration& registration) noexcept {
  std::shared_future<void> aborted;
  {
    const std::lock_guard lock(handle_mutex_);
    aborted = aborted_;
    const bool is_open = handle_ != nullptr && !is_closing_;
    if (is_open && registration.window != nullptr) {
      nccl().ncclCommWindowDeregister(handle_, registration.window);
    }
    if (is_open && registration.handle != nullptr) {
      nccl().ncclCommDeregister(handle_, registration.handle);
    }
  }
  if (aborted.valid() && !NcclGroup::is_open()) aborted.wait();
}

void NcclCommunicator::take(ncclComm_t connected) {
  {
    const std::lock_guard lock(handle_mutex_);
    handle_ = connected;
  }
  wait_until_settled(kWhere);
}

void NcclCommunicator::launch(const std::string& where,
                              const std::function<void(ncclComm_t)>& calls) {
  std::optional<FailedCall> failed;
  ncclResult_t started = ncclSuccess;
  {
    const std::lock_guard lock(handle_mutex_);
    throw_if_failed();
    NcclGroup::add_member(handle_);
    nccl().ncclGroupStart();
    try {
      calls(handle_);
    } catch (const FailedCall& call) {
      failed = call;
    }
    started = nccl().ncclGroupEnd();
  }
  if (failed) throw Error(fail(where, failed->result));
  if (started != ncclSuccess && started != ncclInProgress) throw Error(fail(where, started));
  NcclGroup::after([this, where] { wait_until_settled(where); });
}

void NcclCommunicator::check(ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) throw FailedCall{result};
}

void NcclCommunicator::throw_if_failed() const {
  if (const auto first = failure()) throw Error(*first);
}

ncclResult_t NcclCommunicator::state() {
  const std::lock_guard lock(handle_mutex_);
  throw_if_failed();
  if (handle_ == nullptr) return ncclSuccess;
  ncclResult_t async_error = ncclSuccess;
  const ncclResult_t result = nccl().ncclCommGetAsyncError(handle_, &async_error);
  return result == ncclSuccess ? async_error : result;
}

void NcclCommunicator::check_async_error(const std::string& where) {
  const ncclResult_t result = state();
  if (result != ncclSuccess && result != ncclInProgress) throw Error(fail(where, result));
}

/// While NCCL is in progress, another call returns ncclInvalidArgument. An event would be recorded
/// too early: the calls may not be in the stream yet.
void NcclCommunicator::wait_until_settled(const std::string& where) {
  const auto began = std::chrono::steady_clock::now();
  poll_until([&] { return is_settled(where, began); });
}

bool NcclCommunicator::is_settled(const std::string& where, Time began) {
  const ncclResult_t result = state();
  if (result == ncclSuccess) return true;
  if (result != ncclInProgress) throw Error(fail(where, result));
  if (is_overdue(began)) throw Error(time_out(where));
  return false;
}

Error NcclCommunicator::time_out(const std::string& where) {
  return fail(where, ErrorKind::timed_out,
              "timed out after " + name_time(timeout_) + " waiting for the other ranks " + where);
}

bool NcclCommunicator::is_watched() const {
  const std::lock_guard lock(failure_mutex_);
  return static_cast<bool>(failed_);
}

/// The watcher, if there is one, handles timeouts: it knows the current limit, and asks what the
/// other ranks do.
bool NcclCommunicator::is_overdue(Time since) const {
  return !is_watched() && std::chrono::steady_clock::now() - since > timeout_.load();
}

std::optional<Error> NcclCommunicator::failure() const {
  const std::lock_guard lock(failure_mutex_);
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
  // The ranks agree on the error before the others see this communicator end.
  const Error error = context_.store ? agree_on(context_, where, kind, sentence)
                                     : own_error(context_, kind, " " + sentence);
  if (!set_failure(error)) return failure().value_or(error);
  std::function<void(const Error& error)> failed;
  {
    const std::lock_guard lock(failure_mutex_);
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
  return fail(where, thrown.kind(), "failed " + where + ": " + plain_text(thrown));
}

/// Returns false if there was a failure before.
bool NcclCommunicator::set_failure(const Error& error) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return false;
  failure_ = error;
  return true;
}

void NcclCommunicator::abort() noexcept {
  set_failure(own_error(context_, ErrorKind::system, " aborted the group's calls"));
  abort_handle(shared_from_this());
}

/// Called after set_failure(), so nothing makes a new one. If the abort is deferred, `owner` keeps
/// this object alive.
void NcclCommunicator::abort_handle(std::shared_ptr<void> owner) noexcept {
  ncclComm_t handle = nullptr;
  std::promise<void> aborted;
  {
    const std::lock_guard lock(handle_mutex_);
    std::swap(handle, handle_);
    if (handle == nullptr) return;
    aborted_ = aborted.get_future().share();
  }
  const auto kept = std::make_shared<KeptUntilAborted>(std::move(owner), std::move(aborted));
  NcclGroup::abort(handle, kept);
}

void NcclCommunicator::close() noexcept {
  const std::string where = "leaving the group";
  try {
    {
      const std::lock_guard lock(handle_mutex_);
      if (handle_ == nullptr || failure()) return;
      is_closing_ = true;
      const auto result = nccl().ncclCommFinalize(handle_);
      if (result != ncclSuccess && result != ncclInProgress) return;  // the destructor aborts
    }
    wait_until_settled(where);
    ncclComm_t handle = nullptr;
    {
      const std::lock_guard lock(handle_mutex_);
      std::swap(handle, handle_);
    }
    if (handle != nullptr) nccl().ncclCommDestroy(handle);
  } catch (const Error&) {
    // A failure does not matter to a rank that leaves.
  }
}

}  // namespace ddp::internal
