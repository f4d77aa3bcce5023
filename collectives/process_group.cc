// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "collectives/backend.h"
#include "collectives/gloo_backend.h"
#include "collectives/init.h"
#include "collectives/local_backend.h"
#include "collectives/task.h"

namespace ddp {

struct ProcessGroup::Impl {
  int rank = 0;
  int size = 1;
  std::unique_ptr<internal::Backend> backend;
  std::optional<Error> failure;  ///< the first; thrown by every later call

  internal::TaskMaker make() const { return {rank, size}; }

  void run(const internal::Task& task) {
    if (failure) throw *failure;
    try {
      backend->run(task);
    } catch (const Error& error) {
      failure = error;
      throw;
    }
  }
};

ProcessGroup ProcessGroup::from_env(const Options& options) {
  const internal::Rendezvous met = internal::rendezvous(options);
  auto impl = std::make_unique<Impl>();
  impl->rank = met.place.rank;
  impl->size = met.place.size;
  impl->backend =
      impl->size > 1 ? internal::make_gloo_backend({impl->rank, impl->size, met.store, met.address,
                                                    met.prefix, options.timeout, met.rank_0_serves})
                     : internal::make_local_backend();
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
  if (!impl_ || impl_->failure) return;
  if (std::uncaught_exceptions() == 0) impl_->backend->leave();
}

int ProcessGroup::rank() const noexcept {
  return impl_->rank;
}
int ProcessGroup::size() const noexcept {
  return impl_->size;
}

void ProcessGroup::barrier() {
  impl_->run({.operation = internal::Operation::barrier});
}

void ProcessGroup::broadcast(Buffer data, int root) {
  impl_->run(impl_->make().broadcast(data, root));
}

void ProcessGroup::reduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
  impl_->run(impl_->make().reduce(in, out, root, op));
}
void ProcessGroup::reduce(Buffer data, int root, ReduceOp op) {
  reduce(data, data, root, op);
}

void ProcessGroup::all_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
  impl_->run(impl_->make().all_reduce(in, out, op));
}
void ProcessGroup::all_reduce(Buffer data, ReduceOp op) {
  all_reduce(data, data, op);
}

void ProcessGroup::gather(ConstBuffer in, Buffer out, int root) {
  impl_->run(impl_->make().gather(in, out, root));
}
void ProcessGroup::gather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
  impl_->run(impl_->make().gather_v(in, out, counts, root));
}

void ProcessGroup::all_gather(ConstBuffer in, Buffer out) {
  impl_->run(impl_->make().all_gather(in, out));
}
void ProcessGroup::all_gather_v(ConstBuffer in, Buffer out, Counts counts) {
  impl_->run(impl_->make().all_gather_v(in, out, counts));
}

void ProcessGroup::scatter(ConstBuffer in, Buffer out, int root) {
  impl_->run(impl_->make().scatter(in, out, root));
}
void ProcessGroup::scatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
  impl_->run(impl_->make().scatter_v(in, counts, out, root));
}

void ProcessGroup::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  impl_->run(impl_->make().reduce_scatter(in, out, op));
}
void ProcessGroup::reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
  impl_->run(impl_->make().reduce_scatter_v(in, out, counts, op));
}

void ProcessGroup::all_to_all(ConstBuffer in, Buffer out) {
  impl_->run(impl_->make().all_to_all(in, out));
}
void ProcessGroup::all_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                Counts recv_counts) {
  impl_->run(impl_->make().all_to_all_v(in, send_counts, out, recv_counts));
}

}  // namespace ddp
