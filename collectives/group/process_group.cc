// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <exception>
#include <utility>
#include <vector>

#include "collectives/failure/watchdog.h"
#include "collectives/group/async_teardown.h"
#include "collectives/group/make_backend.h"
#include "collectives/group/process_group_impl.h"
#include "collectives/group/task_maker.h"

namespace ddp {

ProcessGroup::Impl::Impl(internal::Rendezvous rendezvous, std::chrono::milliseconds limit,
                         std::string chosen, std::vector<int> names,
                         std::shared_ptr<internal::FailureBroadcast> broadcast)
    : met(std::move(rendezvous)), backend_name(std::move(chosen)), whole(std::move(names)) {
  const auto [rank, size] = std::pair(met.place.rank, met.place.size);
  const internal::GroupContext context = {rank,       size,  met.store,         met.address,
                                          met.prefix, limit, met.rank_0_serves, whole};
  backend = internal::make_backend(backend_name, context);
  calls = std::make_shared<internal::GroupCalls>(context, backend_name);
  if (size == 1) return;  // nobody to wait for
  auto watchdog = internal::Watchdog::of_process();
  if (!broadcast) {
    broadcast = std::make_shared<internal::FailureBroadcast>(
        met.store, met.prefix, rank, size,
        internal::FailureBroadcast::Events{
            [store = met.store, to = std::weak_ptr(watchdog)](const std::string& group) {
              if (const auto awake = to.lock()) awake->hear(*store, group);
            },
            [to = std::weak_ptr(watchdog)](const std::string& sentence) {
              if (const auto awake = to.lock()) awake->hear_loss(sentence);
            }});
  }
  calls->begin_watch(*backend, std::move(watchdog), std::move(broadcast));
}

ProcessGroup::Impl::Impl(internal::Rendezvous rendezvous, std::chrono::milliseconds limit,
                         std::string chosen, std::unique_ptr<internal::Backend> connected)
    : met(std::move(rendezvous)), backend_name(std::move(chosen)), backend(std::move(connected)) {
  internal::GroupContext context{};
  context.rank = met.place.rank;
  context.size = met.place.size;
  context.timeout = limit;
  calls = std::make_shared<internal::GroupCalls>(context, backend_name);
  if (context.size > 1) calls->begin_watch(*backend, internal::Watchdog::of_process(), nullptr);
}

void ProcessGroup::Impl::run(const internal::Task& task) {
  if (task.on_device) return begin(task).wait();  // it is under way when run() would return
  backend->check(task);
  const auto call = calls->begin(task);
  try {
    backend->run(task);
  } catch (const Error& error) {
    throw Error(calls->fail(call, error));
  }
  calls->succeed(call);
}

Work ProcessGroup::Impl::begin(const internal::Task& task) {
  backend->check(task);
  const auto call = calls->begin(task);
  return Work(calls->follow(call, backend->begin(task)));
}

ProcessGroup init_process_group(const Options& options) {
  const std::string chosen = internal::choose_backend(options.backend);
  const auto limit = options.timeout.value_or(std::chrono::minutes(chosen == "nccl" ? 10 : 30));
  internal::check_timeout(limit);
  return ProcessGroup(std::make_unique<ProcessGroup::Impl>(
      internal::rendezvous(options, limit), limit, chosen, std::vector<int>(), nullptr));
}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept = default;

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  ProcessGroup old(std::move(*this));  // leaves at the end of this function
  impl_ = std::move(other.impl_);
  return *this;
}

ProcessGroup::~ProcessGroup() {
  if (!impl_) return;
  if (impl_->calls->has_failed() || std::uncaught_exceptions() > 0) {
    impl_->backend->abort();
    impl_->calls->end_watch();
  } else if (size() > 1) {
    internal::leave_async(std::move(impl_->backend), impl_->calls);
  }
}

int ProcessGroup::rank() const noexcept {
  return impl_->met.place.rank;
}
int ProcessGroup::size() const noexcept {
  return impl_->met.place.size;
}
const std::string& ProcessGroup::backend() const noexcept {
  return impl_->backend_name;
}

void ProcessGroup::set_timeout(std::chrono::milliseconds timeout) {
  internal::check_timeout(timeout);
  impl_->calls->set_limit(timeout);
}
std::chrono::milliseconds ProcessGroup::timeout() const noexcept {
  return impl_->calls->limit();
}

void ProcessGroup::barrier() {
  impl_->run({.operation = internal::Operation::barrier});
}
Work ProcessGroup::ibarrier() {
  return impl_->begin({.operation = internal::Operation::barrier});
}

void ProcessGroup::broadcast(Buffer data, int root) {
  impl_->run(impl_->make().broadcast(data, root));
}
Work ProcessGroup::ibroadcast(Buffer data, int root) {
  return impl_->begin(impl_->make().broadcast(data, root));
}

void ProcessGroup::reduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
  impl_->run(impl_->make().reduce(in, out, root, op));
}
void ProcessGroup::reduce(Buffer data, int root, ReduceOp op) {
  reduce(data, data, root, op);
}
Work ProcessGroup::ireduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
  return impl_->begin(impl_->make().reduce(in, out, root, op));
}
Work ProcessGroup::ireduce(Buffer data, int root, ReduceOp op) {
  return ireduce(data, data, root, op);
}

void ProcessGroup::all_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
  impl_->run(impl_->make().all_reduce(in, out, op));
}
void ProcessGroup::all_reduce(Buffer data, ReduceOp op) {
  all_reduce(data, data, op);
}
Work ProcessGroup::iall_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
  return impl_->begin(impl_->make().all_reduce(in, out, op));
}
Work ProcessGroup::iall_reduce(Buffer data, ReduceOp op) {
  return iall_reduce(data, data, op);
}

void ProcessGroup::gather(ConstBuffer in, Buffer out, int root) {
  impl_->run(impl_->make().gather(in, out, root));
}
Work ProcessGroup::igather(ConstBuffer in, Buffer out, int root) {
  return impl_->begin(impl_->make().gather(in, out, root));
}

void ProcessGroup::gather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
  impl_->run(impl_->make().gather_v(in, out, counts, root));
}
Work ProcessGroup::igather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
  return impl_->begin(impl_->make().gather_v(in, out, counts, root));
}

void ProcessGroup::all_gather(ConstBuffer in, Buffer out) {
  impl_->run(impl_->make().all_gather(in, out));
}
Work ProcessGroup::iall_gather(ConstBuffer in, Buffer out) {
  return impl_->begin(impl_->make().all_gather(in, out));
}

void ProcessGroup::all_gather_v(ConstBuffer in, Buffer out, Counts counts) {
  impl_->run(impl_->make().all_gather_v(in, out, counts));
}
Work ProcessGroup::iall_gather_v(ConstBuffer in, Buffer out, Counts counts) {
  return impl_->begin(impl_->make().all_gather_v(in, out, counts));
}

void ProcessGroup::scatter(ConstBuffer in, Buffer out, int root) {
  impl_->run(impl_->make().scatter(in, out, root));
}
Work ProcessGroup::iscatter(ConstBuffer in, Buffer out, int root) {
  return impl_->begin(impl_->make().scatter(in, out, root));
}

void ProcessGroup::scatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
  impl_->run(impl_->make().scatter_v(in, counts, out, root));
}
Work ProcessGroup::iscatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
  return impl_->begin(impl_->make().scatter_v(in, counts, out, root));
}

void ProcessGroup::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  impl_->run(impl_->make().reduce_scatter(in, out, op));
}
Work ProcessGroup::ireduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  return impl_->begin(impl_->make().reduce_scatter(in, out, op));
}

void ProcessGroup::reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
  impl_->run(impl_->make().reduce_scatter_v(in, out, counts, op));
}
Work ProcessGroup::ireduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
  return impl_->begin(impl_->make().reduce_scatter_v(in, out, counts, op));
}

void ProcessGroup::all_to_all(ConstBuffer in, Buffer out) {
  impl_->run(impl_->make().all_to_all(in, out));
}
Work ProcessGroup::iall_to_all(ConstBuffer in, Buffer out) {
  return impl_->begin(impl_->make().all_to_all(in, out));
}

void ProcessGroup::all_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                Counts recv_counts) {
  impl_->run(impl_->make().all_to_all_v(in, send_counts, out, recv_counts));
}
Work ProcessGroup::iall_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                 Counts recv_counts) {
  return impl_->begin(impl_->make().all_to_all_v(in, send_counts, out, recv_counts));
}

void ProcessGroup::send(ConstBuffer data, int to, int tag) {
  impl_->run(impl_->make().send(data, to, tag));
}
Work ProcessGroup::isend(ConstBuffer data, int to, int tag) {
  return impl_->begin(impl_->make().send(data, to, tag));
}

void ProcessGroup::recv(Buffer data, int from, int tag) {
  impl_->run(impl_->make().recv(data, from, tag));
}
Work ProcessGroup::irecv(Buffer data, int from, int tag) {
  return impl_->begin(impl_->make().recv(data, from, tag));
}

void ProcessGroup::batch_send_recv(std::span<const P2POp> ops) {
  impl_->run(impl_->make().batch_send_recv(ops));
}
Work ProcessGroup::batch_isend_irecv(std::span<const P2POp> ops) {
  return impl_->begin(impl_->make().batch_send_recv(ops));
}

}  // namespace ddp
