// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "collectives/backend.h"
#include "collectives/call.h"
#include "collectives/gloo_backend.h"
#include "collectives/init.h"

namespace ddp {
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
  const internal::Rendezvous met = internal::rendezvous(options);
  auto impl = std::make_unique<Impl>();
  impl->rank = met.place.rank;
  impl->size = met.place.size;
  if (impl->size > 1) {
    impl->backend = internal::make_gloo_backend({impl->rank, impl->size, met.store, met.address,
                                                 met.prefix, options.timeout, met.rank_0_serves});
  }
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
