// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/comparison.h"
#include "collectives/backends/call_queue.h"
#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/descriptors.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/messages.h"
#include "collectives/backends/cpu/node_collectives.h"
#include "collectives/backends/cpu/shared_memory.h"
#include "collectives/backends/host_memory.h"
#include "collectives/backends/shm/collectives.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// Collectives go through memory if ranks share it, else through the mesh. They go through a queue,
/// messages beside it. A failure of either fails both: all ranks agree on it first, and only then
/// are the connections shut down.
class CpuBackend : public Backend {
 public:
  /// Connects the ranks at once, or in the first collective call.
  CpuBackend(GroupContext context, bool is_lazy);

  void check(const Task& task) const override {
    check_in_host_memory(task, "cpu", context_.named(context_.rank));
  }
  void set_timeout(std::chrono::milliseconds timeout) override { messages_->set_timeout(timeout); }
  bool run_now(const Transfer& message) override { return messages_->run_now(message); }
  void run(const Task& task) override;
  bool run_now(const Task& task) override;
  std::optional<int> probe(int tag) override { return messages_->probe(tag); }
  std::shared_ptr<AsyncCall> begin(const Task& task) override;
  std::shared_ptr<void> allocate(const Task& task) override;
  void abort() noexcept override;
  void leave() noexcept override;

 private:
  void connect(std::optional<std::chrono::steady_clock::time_point> deadline);
  void accept_connections();
  void publish(std::unique_ptr<NodeCollectives> nodes);
  void perform(const Task& task);
  void do_collective(const Task& task, const Call& call);
  void do_connected(const Task& task, const Call& call);
  void run_collective(const Task& task, const Call& call);
  void fail(const Error& error) noexcept;
  void fail_collectives(const Error& error) noexcept;
  std::optional<Error> failure();

  GroupContext context_;
  // Made early: when the group is aborted, there may be no memory left for it.
  const Error aborted_ = own_error(context_, ErrorKind::system, " aborted the group");
  std::unique_ptr<CpuListeners> listeners_;
  std::mutex mutex_;  // protects failure_, and the pointers mesh_ and nodes_
  std::optional<Error> failure_;
  std::atomic<bool> has_failed_ = false;  // failure_ is set
  std::unique_ptr<CpuMesh> mesh_;         // null after a failure
  std::unique_ptr<CpuCollectives> collectives_;
  std::unique_ptr<NodeCollectives> nodes_;  // null until the ranks connect, and after a failure
  std::unique_ptr<CpuMessages> messages_;
  std::shared_ptr<void> allocated_;  // by the last call of allocate(), for its caller
  std::uint64_t calls_ = 0;
  // The last member, so that it is destroyed first: it uses the others.
  CallQueue queue_{[this](const Task& task) { perform(task); }};
};

CpuBackend::CpuBackend(GroupContext context, bool is_lazy) : context_(std::move(context)) {
  try {
    allow_descriptors(context_.size);
    listeners_ = std::make_unique<CpuListeners>(
        context_, is_lazy ? CpuListeners::Known::all : CpuListeners::Known::few);
    mesh_ = std::make_unique<CpuMesh>(context_, *listeners_);
    accept_connections();
    if (!is_lazy) connect(std::chrono::steady_clock::now() + context_.timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw own_error(
        context_, ErrorKind::system,
        " could not connect to the others from " + context_.address + ": " + failure.what());
  }
}

void CpuBackend::accept_connections() {
  messages_ = std::make_unique<CpuMessages>(
      context_, *listeners_,
      CpuMessages::Events{
          .failed = [this](const Error& error) { fail_collectives(error); },
          .on_calls =
              [this](int from, ddprun::Fd socket) {
                const std::lock_guard lock(mutex_);
                if (mesh_) mesh_->accept(from, std::move(socket));
              },
          .ended =
              [this](int rank) {
                const std::lock_guard lock(mutex_);
                if (nodes_) nodes_->on_end(rank);
              },
      });
}

/// Connects some ranks, then shares memory among those that may.
void CpuBackend::connect(std::optional<std::chrono::steady_clock::time_point> deadline) {
  constexpr const char* kConnecting = "while connecting";
  try {
    mesh_->set_deadline(deadline);
    collectives_ = std::make_unique<CpuCollectives>(context_, *mesh_);
    listeners_->read(collectives_->partners());
    auto nodes = std::make_unique<NodeCollectives>(
        context_, *collectives_,
        share_memory(context_, *listeners_, *mesh_, *collectives_, *messages_));
    mesh_->set_deadline(std::nullopt);
    // Messages within the node go through its memory, too.
    if (auto rings = nodes->rings()) messages_->use_rings(std::move(*rings));
    if (nodes->are_on_one_node()) mesh_->close();
    publish(std::move(nodes));
  } catch (const PeerLost& lost) {
    throw agree_on_loss(context_, kConnecting, lost.rank, lost.reason);
  } catch (const PeerLate& late) {
    throw agree_on_timeout(context_, kConnecting, late.rank);
  } catch (const MeshStopped&) {
    if (const auto error = failure()) throw Error(*error);
    throw own_error(context_, ErrorKind::system, " gave up connecting");
  }
}

/// From now on failures stop calls in this memory; those before do it here.
void CpuBackend::publish(std::unique_ptr<NodeCollectives> nodes) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    nodes_ = std::move(nodes);
  }
  for (const int rank : nodes_->ranks_here()) {
    if (messages_->has_ended(rank)) nodes_->on_end(rank);
  }
}

void CpuBackend::run(const Task& task) {
  if (is_point_to_point(task.operation)) return messages_->begin(task)->wait();
  queue_.run(task);
}

bool CpuBackend::run_now(const Task& task) {
  if (!ShmCollectives::is_little(task)) return false;
  return queue_.run_if([&] { return nodes_ && nodes_->is_ready(task); }, task);
}

std::shared_ptr<AsyncCall> CpuBackend::begin(const Task& task) {
  return is_point_to_point(task.operation) ? messages_->begin(task) : queue_.begin(task);
}

std::shared_ptr<void> CpuBackend::allocate(const Task& task) {
  queue_.run(task);
  return std::exchange(allocated_, nullptr);
}

void CpuBackend::leave() noexcept {
  try {
    messages_->finish();
    queue_.finish();
    if (has_failed_) return;
    say_goodbye(context_);
    if (nodes_) nodes_->leave();
    messages_->say_goodbye();
  } catch (const std::exception&) {
    // The others take the end of this rank's connections for a loss.
  }
}

void CpuBackend::abort() noexcept {
  fail(aborted_);
}

/// Makes all that is under way fail with this error, or with the first one if there was one.
void CpuBackend::fail(const Error& error) noexcept {
  fail_collectives(error);
  messages_->fail(error);
}

void CpuBackend::fail_collectives(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  has_failed_ = true;
  if (nodes_) nodes_->stop();
  if (mesh_) mesh_->abort();
}

std::optional<Error> CpuBackend::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CpuBackend::perform(const Task& task) {
  const auto error = has_failed_ ? failure() : std::nullopt;  // seldom: no lock before each call
  if (error) throw Error(*error);
  run_collective(task, collective_call(context_, task, ++calls_));
}

/// The watchdog watches the time of connecting, too.
void CpuBackend::do_collective(const Task& task, const Call& call) {
  if (nodes_ && nodes_->are_on_one_node()) return do_connected(task, call);
  if (!nodes_) connect(std::nullopt);
  do_connected(task, call);
}

void CpuBackend::do_connected(const Task& task, const Call& call) {
  if (task.operation != Operation::allocate) return nodes_->run(task, call);
  allocated_ = nodes_->allocate(task, call);
}

/// If the call fails, all ranks agree on the failure, and it fails the group.
void CpuBackend::run_collective(const Task& task, const Call& call) {
  const auto where = [&] { return "in " + describe(call); };
  try {
    return do_collective(task, call);
  } catch (const ShmStopped& stopped) {
    const auto place = static_cast<std::size_t>(stopped.rank);
    if (!failure()) {
      fail(agree_on_loss(context_, where(), nodes_->ranks_here()[place], "its connection ended"));
    }
  } catch (const PeerLost& lost) {
    // If there is a failure already, it made abort() or the messages close the connections.
    if (!failure()) fail(agree_on_loss(context_, where(), lost.rank, lost.reason));
  } catch (...) {
    if (!failure()) fail(agree_on_exception(context_, where()));
  }
  {
    const std::lock_guard lock(mutex_);
    nodes_.reset();
    collectives_.reset();
    mesh_.reset();
  }
  throw Error(*failure());
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(GroupContext context) {
  return std::make_unique<CpuBackend>(std::move(context), false);
}

std::unique_ptr<Backend> make_lazy_cpu_backend(GroupContext context) {
  return std::make_unique<CpuBackend>(std::move(context), true);
}

}  // namespace ddp::internal
