// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "collectives/backend.h"
#include "collectives/call.h"
#include "collectives/environment.h"
#include "collectives/failure.h"
#include "collectives/gloo_backend.h"
#include "collectives/store_host.h"
#include "ddp/tcp_store.h"

namespace ddp {
namespace {

/// "ddp/0/" for the first group of the process, "ddp/1/" for the next: the same on every rank.
std::string next_prefix() {
  static std::atomic<int> groups{0};
  return "ddp/" + std::to_string(groups++) + "/";
}

std::unique_ptr<internal::Backend> connect(const internal::Environment& env,
                                           const Options& options) {
  const std::string prefix = next_prefix();
  if (!env.agent_store && env.rank == 0) internal::host_store(env.master_addr, env.master_port);
  const auto store = internal::at_rank(env.rank, [&] {
    return std::make_shared<TcpStore>(env.master_addr, env.master_port,
                                      TcpStoreOptions{.timeout = options.timeout});
  });
  return internal::make_gloo_backend({env.rank, env.size, store, store->local_address(), prefix,
                                      options.timeout, !env.agent_store});
}

}  // namespace

struct ProcessGroup::Impl {
  int rank = 0;
  int size = 1;
  std::unique_ptr<internal::Backend> backend;  ///< none when size is 1
  std::optional<Error> failure;                ///< the first; thrown by every later call

  /// Runs one call on the backend.
  template <class F>
  void perform(F call) {
    if (failure) throw *failure;
    if (!backend) return;
    try {
      call(*backend);
    } catch (const Error& error) {
      failure = error;
      throw;
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::usage, "ddp: rank " + std::to_string(rank) + ": " + what);
  }
};

ProcessGroup ProcessGroup::from_env(const Options& options) {
  if (options.timeout.count() <= 0) {
    throw Error(ErrorKind::usage, "ddp: the timeout must be more than 0, not " +
                                      internal::name_time(options.timeout));
  }
  const internal::Environment env = internal::read_environment();
  auto impl = std::make_unique<Impl>();
  impl->rank = env.rank;
  impl->size = env.size;
  if (env.size > 1) impl->backend = connect(env, options);
  return ProcessGroup(std::move(impl));
}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept = default;

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  ProcessGroup old(std::move(*this));  // leaves at the end of this function
  impl_ = std::move(other.impl_);
  return *this;
}

ProcessGroup::~ProcessGroup() {
  if (!impl_ || !impl_->backend || impl_->failure) return;
  if (std::uncaught_exceptions() == 0) impl_->backend->leave();
}

int ProcessGroup::rank() const noexcept {
  return impl_->rank;
}
int ProcessGroup::size() const noexcept {
  return impl_->size;
}

void ProcessGroup::broadcast(Buffer buffer, int root) {
  if (root < 0 || root >= size()) {
    impl_->refuse("broadcast from rank " + std::to_string(root) + ", but ranks are 0 to " +
                  std::to_string(size() - 1));
  }
  impl_->perform([&](internal::Backend& backend) { backend.broadcast(buffer, root); });
}

void ProcessGroup::all_reduce(Buffer buffer, ReduceOp op) {
  const bool integers = buffer.type == DataType::int32 || buffer.type == DataType::int64;
  if (op == ReduceOp::mean && integers) {
    impl_->refuse(std::string("all_reduce cannot take the ") + internal::name(op) + " of " +
                  internal::name(buffer.type) + ": only of float32 and float64");
  }
  impl_->perform([&](internal::Backend& backend) { backend.all_reduce(buffer, op); });
}

void ProcessGroup::barrier() {
  impl_->perform([](internal::Backend& backend) { backend.barrier(); });
}

}  // namespace ddp
