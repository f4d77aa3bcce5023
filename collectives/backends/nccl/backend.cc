// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/backend.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/comparison.h"
#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/nccl/calls.h"
#include "collectives/backends/nccl/communicator.h"
#include "collectives/backends/nccl/config.h"
#include "collectives/backends/nccl/group.h"
#include "collectives/backends/nccl/library.h"
#include "collectives/backends/nccl/memory.h"
#include "collectives/backends/nccl/placement.h"
#include "collectives/backends/nccl/watch.h"
#include "collectives/call/call.h"
#include "collectives/time_limit.h"

namespace ddp::internal {
namespace {

/// A call in the communicator's stream or in the caller's; only the former has to be joined. wait()
/// makes the caller's stream wait, not the host.
class NcclAsyncCall : public AsyncCall {
 public:
  NcclAsyncCall(std::shared_ptr<NcclCommunicator> communicator, std::shared_ptr<NcclCall> call,
                CUstream stream, bool joins)
      : communicator_(std::move(communicator)),
        call_(std::move(call)),
        stream_(stream),
        joins_(joins) {}

  bool is_completed() override { return call_->is_over(); }
  std::optional<Error> error() override { return call_->error(); }
  void wait() override {
    if (const auto error = call_->error()) throw Error(*error);
    if (!joins_) return;
    NcclGroup::after([communicator = communicator_, call = call_, stream = stream_] {
      const OnDevice here(communicator->device());  // a null stream is this device's default one
      call->make_wait(stream);
    });
  }

  bool completes_until(std::chrono::steady_clock::time_point deadline) override {
    return poll_until([this] { return is_completed(); }, deadline);
  }

 private:
  std::shared_ptr<NcclCommunicator> communicator_;
  std::shared_ptr<NcclCall> call_;
  CUstream stream_;
  bool joins_;
};

class NcclBackend : public Backend {
 public:
  NcclBackend(GroupContext context, std::unique_ptr<Backend> host)
      : context_(std::move(context)), host_(std::move(host)) {}
  explicit NcclBackend(const std::shared_ptr<NcclCommunicator>& connected,
                       std::unique_ptr<Backend> host = nullptr)
      : context_(connected->context()), host_(std::move(host)), communicator_(connected) {
    set_up_calls();
  }

  /// Connects the ranks at once.
  NcclBackend(GroupContext context, std::unique_ptr<Backend> host, int device)
      : NcclBackend(std::move(context), std::move(host)) {
    connect(device);
  }

  /// Closes a group of one rank: leave() is not called for it.
  ~NcclBackend() override {
    if (communicator_) communicator_->close();
  }

  void check(const Task& task) const override;
  void run(const Task& task) override;
  std::shared_ptr<AsyncCall> begin(const Task& task) override;
  std::shared_ptr<AsyncCall> begin_in_stream(const Task& task) override;
  void set_timeout(std::chrono::milliseconds timeout) override;
  void watch(const std::function<void(const Error& error)>& failed) override;
  std::shared_ptr<void> allocate(const Task& task) override;
  std::unique_ptr<Backend> split(
      const GroupContext* part, const std::vector<int>& members,
      const std::function<std::unique_ptr<Backend>()>& make_host) override;
  bool can_shrink() const override;
  std::unique_ptr<Backend> shrink(
      const GroupContext& rest, const std::vector<int>& excluded,
      const std::function<std::unique_ptr<Backend>()>& make_host) override;
  void abort() noexcept override;
  void leave() noexcept override;

 private:
  [[noreturn]] void refuse(const Task& task, const std::string& what) const;
  void check_first_call(const Task& task) const;
  std::shared_ptr<NcclCommunicator> communicator() const;
  int device_for(const Task& task) const;
  void set_up_calls();
  void connect(int device);
  std::shared_ptr<AsyncCall> enqueue(const Task& task, bool in_stream);
  std::shared_ptr<NcclCall> launch(const Task& task, CUstream stream);
  void order(const Task& task, CUstream stream, bool is_captured);
  void end_launch(const std::shared_ptr<NcclCall>& call, CUstream stream);
  void finish_calls() const;
  std::string where(const Task& task) const;

  GroupContext context_;
  std::unique_ptr<Backend> host_;  // null if all ranks are in this process
  mutable std::mutex mutex_;       // protects the next four
  std::shared_ptr<NcclCommunicator> communicator_;
  std::function<void(const Error& error)> failed_;
  bool is_aborted_ = false;
  std::optional<std::chrono::milliseconds> timeout_;  // if it was set after the group was made
  std::optional<NcclCalls> calls_;
  std::optional<NcclWatch> watch_;
  std::optional<DeviceEvent> begin_event_;  // for the call that is being enqueued
  std::shared_ptr<NcclCall> last_;          // the last call that is in no graph; null: none yet
  std::optional<unsigned long long> last_stream_;  // the number of its stream
  std::uint64_t issued_ = 0;
};

void NcclBackend::refuse(const Task& task, const std::string& what) const {
  throw own_error(context_, ErrorKind::usage, std::string(": ") + name(task.operation) + what);
}

void NcclBackend::check(const Task& task) const {
  if (!task.on_device) {
    if (host_) return host_->check(task);
    refuse(task, " in host memory: the ranks of init_local_devices move data on devices alone");
  }
  if (const char* const why = NcclCalls::find_obstacle(task)) {
    refuse(task, std::string(" cannot take the ") + name(task.reduce) + " of " + name(task.type) +
                     " on a device: " + why);
  }
  if (NcclGroup::is_open() && task.operation == Operation::allocate) {
    refuse(task, ": memory cannot be allocated in a group call");
  }
  if (NcclGroup::is_open() && NcclCalls::has_steps(task)) {
    refuse(task, ": all_to_all in place takes several steps, and cannot be part of a group call");
  }
  const auto connected = communicator();
  if (!connected) check_first_call(task);
  const int device = connected ? connected->device().number() : device_for(task);
  if (const auto why = find_misplaced(task, device); !why.empty()) refuse(task, why);
}

std::shared_ptr<NcclCommunicator> NcclBackend::communicator() const {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

int NcclBackend::device_for(const Task& task) const {
  const auto known = context_.device ? context_.device : find_device(task);
  return known ? *known : choose_device();
}

void NcclBackend::check_first_call(const Task& task) const {
  check_nccl();
  if (NcclGroup::is_open() || is_capturing(task.stream)) {
    refuse(task,
           ": a group's first call with buffers on a device connects its ranks, and cannot "
           "be captured nor be part of a group call: make one before");
  }
}

void NcclBackend::run(const Task& task) {
  if (communicator_) {
    if (const auto failure = communicator_->failure()) throw Error(*failure);
  }
  host_->run(task);
}

std::shared_ptr<AsyncCall> NcclBackend::begin(const Task& task) {
  return task.on_device ? enqueue(task, false) : host_->begin(task);
}

std::shared_ptr<AsyncCall> NcclBackend::begin_in_stream(const Task& task) {
  return enqueue(task, true);
}

/// Puts the call into the caller's stream if asked: the way to another stream and back takes a GPU
/// 5 us. These calls use the communicator's stream instead: calls of a graph; calls of a group,
/// which are ordered only at its end; and calls with CU_STREAM_PER_THREAD, which is another stream
/// in the thread in which NCCL launches them. If the caller's stream is being captured, the
/// communicator's becomes part of the capture, a fork in the graph, and AsyncCall::wait() joins it.
std::shared_ptr<AsyncCall> NcclBackend::enqueue(const Task& task, bool in_stream) {
  try {
    if (!communicator_) connect(device_for(task));
    const bool stays = in_stream && task.stream != CU_STREAM_PER_THREAD && !NcclGroup::is_open() &&
                       !is_capturing(task.stream);
    const auto call = launch(task, stays ? task.stream : communicator_->stream());
    return std::make_shared<NcclAsyncCall>(communicator_, call, task.stream, !stays);
  } catch (const Error& error) {
    return failed_call(error);
  }
}

/// Launches the call, and records an event after it.
std::shared_ptr<NcclCall> NcclBackend::launch(const Task& task, CUstream stream) {
  const OnDevice here(communicator_->device());
  if (const auto failure = communicator_->failure()) throw Error(*failure);
  const bool is_captured = is_capturing(task.stream);
  const auto call = std::make_shared<NcclCall>(communicator_, where(task), is_captured);
  communicator_->check_async_error(call->where());
  ++issued_;
  try {
    order(task, stream, is_captured);
    calls_->enqueue(task, call->where(), stream);
    NcclGroup::after([this, call, stream] { end_launch(call, stream); });
  } catch (const Error& error) {
    const Error first = communicator_->fail(call->where(), error);
    NcclGroup::fail(first);
    throw Error(first);
  }
  return call;
}

/// Makes the stream wait for the work of the caller's stream and for the call before this one. (A
/// graph cannot wait for a call outside it.)
void NcclBackend::order(const Task& task, CUstream stream, bool is_captured) {
  if (stream != task.stream) {
    begin_event_->record(task.stream);
    begin_event_->make_wait(stream);
  }
  if (is_captured || !last_) return;
  const auto number = number_of(stream);
  if (!number || number != last_stream_) last_->make_wait(stream);
}

void NcclBackend::end_launch(const std::shared_ptr<NcclCall>& call, CUstream stream) {
  const OnDevice here(communicator_->device());
  call->record_end(stream);
  watch_->add(call);
  if (call->is_captured()) return;
  last_ = call;
  last_stream_ = number_of(stream);
}

std::string NcclBackend::where(const Task& task) const {
  Call call = collective_call(context_, task, issued_ + 1);
  if (!task.transfers.empty()) {
    const Transfer& first = task.transfers.front();
    const bool one = task.operation != Operation::batch_send_recv;
    call.count = one ? first.count : task.transfers.size();
    call.root = context_.named(first.peer);
    call.tag = first.tag;
    call.type = static_cast<std::uint8_t>(first.type);
  }
  return "in " + describe(call);
}

void NcclBackend::connect(int device) {
  const auto made = std::make_shared<NcclCommunicator>(context_, device);
  {
    const std::lock_guard lock(mutex_);
    communicator_ = made;
    made->watch(failed_);
    if (timeout_) made->set_timeout(*timeout_);
    if (is_aborted_) made->abort();
  }
  try {
    set_up_calls();
  } catch (const Error& error) {
    throw Error(made->fail("while connecting", error));
  }
  made->connect();
}

void NcclBackend::set_up_calls() {
  const OnDevice here(communicator_->device());
  calls_.emplace(*communicator_);
  begin_event_.emplace();
  watch_.emplace(communicator_);
}

void NcclBackend::set_timeout(std::chrono::milliseconds timeout) {
  if (host_) host_->set_timeout(timeout);
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (communicator_) communicator_->set_timeout(timeout);
}

void NcclBackend::watch(const std::function<void(const Error& error)>& failed) {
  if (host_) host_->watch(failed);
  const std::lock_guard lock(mutex_);
  failed_ = failed;
  if (communicator_) communicator_->watch(failed_);
}

std::shared_ptr<void> NcclBackend::allocate(const Task& task) {
  if (!communicator_) connect(device_for(task));
  try {
    return allocate_registered(communicator_, task.count);
  } catch (const Error& error) {
    throw Error(communicator_->fail(where(task), error));
  }
}

/// Splits only with Options::device: then all ranks of the group, and of its parts, are connected
/// by now. The color of a part is its first member.
std::unique_ptr<Backend> NcclBackend::split(
    const GroupContext* part, const std::vector<int>& members,
    const std::function<std::unique_ptr<Backend>()>& make_host) {
  if (!context_.device) return nullptr;
  finish_calls();
  if (part == nullptr) {
    communicator_->split(NCCL_SPLIT_NOCOLOR, 0, nullptr);
    return nullptr;
  }
  const auto connected =
      std::make_shared<NcclCommunicator>(*part, communicator_->device().number());
  communicator_->split(members.front(), part->rank, connected.get());
  return std::make_unique<NcclBackend>(connected, make_host());
}

/// Needs Options::device, as split() does: then each rank knows that the others are connected.
bool NcclBackend::can_shrink() const {
  return context_.device && nccl().ncclCommShrink != nullptr && communicator_ &&
         !communicator_->failure();
}

std::unique_ptr<Backend> NcclBackend::shrink(
    const GroupContext& rest, const std::vector<int>& excluded,
    const std::function<std::unique_ptr<Backend>()>& make_host) {
  finish_calls();
  const auto connected = std::make_shared<NcclCommunicator>(rest, communicator_->device().number());
  communicator_->shrink(excluded, *connected);
  return std::make_unique<NcclBackend>(connected, make_host());
}

/// NCCL may hang if a communicator is split while calls are under way.
void NcclBackend::finish_calls() const {
  if (!last_) return;
  poll_until([&] {
    if (const auto failure = communicator_->failure()) throw Error(*failure);
    return last_->check();
  });
}

void NcclBackend::abort() noexcept {
  if (host_) host_->abort();
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
  }
  if (const auto connected = communicator()) connected->abort();
}

void NcclBackend::leave() noexcept {
  if (communicator_) communicator_->close();
  if (host_) host_->leave();
}

}  // namespace

bool can_use_nccl() noexcept {
  if (!may_see_gpus()) return false;
  try {
    nccl();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void require_nccl() {
  count_gpus();
  nccl();
  check_nccl();
}

void check_nccl_options(const NcclOptions& options) {
  check_settings(options, nccl_version());
}

std::unique_ptr<Backend> make_nccl_backend(GroupContext context, std::unique_ptr<Backend> host) {
  if (const auto device = context.device) {
    return std::make_unique<NcclBackend>(std::move(context), std::move(host), *device);
  }
  return std::make_unique<NcclBackend>(std::move(context), std::move(host));
}

std::vector<std::unique_ptr<Backend>> make_local_nccl_backends(std::span<const int> devices,
                                                               std::chrono::milliseconds timeout) {
  std::vector<std::shared_ptr<NcclCommunicator>> ranks;
  for (const int device : devices) {
    GroupContext context{};
    context.rank = static_cast<int>(ranks.size());
    context.size = static_cast<int>(devices.size());
    context.timeout = bounded(timeout);
    ranks.push_back(std::make_shared<NcclCommunicator>(context, device));
  }
  NcclCommunicator::connect_together(ranks);
  std::vector<std::unique_ptr<Backend>> backends;
  for (const auto& rank : ranks) backends.push_back(std::make_unique<NcclBackend>(rank));
  return backends;
}

void run_nccl_group(const std::function<void()>& calls) {
  NcclGroup::run(calls);
}

void abort_together(const std::function<void()>& work) {
  NcclGroup::abort_together(work);
}

int local_gpu() {
  return choose_device();
}

std::vector<int> list_gpus() {
  std::vector<int> all(static_cast<std::size_t>(count_gpus()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void check_gpu(int device) {
  const int count = count_gpus();
  if (device >= 0 && device < count) return;
  throw Error(ErrorKind::usage, "ddp: device " + std::to_string(device) +
                                    ", but devices are 0 to " + std::to_string(count - 1));
}

}  // namespace ddp::internal
