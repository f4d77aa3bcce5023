// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <utility>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/errors.h"
#include "collectives/group/group_member.h"
#include "collectives/group/make_backend.h"
#include "collectives/group/objects.h"
#include "collectives/group/rendezvous.h"
#include "collectives/group/scan.h"
#include "collectives/group/shrink.h"
#include "collectives/group/subgroup.h"
#include "collectives/time_limit.h"

namespace ddp {
namespace {

void check_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() > 0) return;
  throw Error(ErrorKind::usage,
              "ddp: the timeout must be more than 0, not " + internal::name_time(timeout));
}

/// Keeps a member in a forked process: it has no threads here, and the parent's connections.
void keep(std::unique_ptr<internal::GroupMember> of_parent) {
  static auto* const all = new std::vector<std::unique_ptr<internal::GroupMember>>;
  all->push_back(std::move(of_parent));
}

}  // namespace

ProcessGroup init_process_group(const Options& options) {
  const std::string backend = internal::choose_backend(options.backend);
  const auto timeout = options.timeout.value_or(std::chrono::minutes(backend == "nccl" ? 10 : 30));
  check_timeout(timeout);
  internal::check_options(options, backend);
  internal::GroupContext context = internal::rendezvous(options, internal::bounded(timeout));
  context.backend = backend;
  return ProcessGroup(std::make_unique<internal::GroupMember>(std::move(context), backend));
}

ProcessGroup::ProcessGroup(std::unique_ptr<internal::GroupMember> member)
    : member_(std::move(member)) {}
ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept = default;

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  ProcessGroup old(std::move(*this));  // leaves at the end of this function
  member_ = std::move(other.member_);
  return *this;
}

ProcessGroup::~ProcessGroup() {
  if (!member_) return;
  if (member_->is_of_parent()) {
    keep(std::move(member_));
  } else {
    member_->leave();
  }
}

int ProcessGroup::rank() const noexcept {
  return member_->context.rank;
}
int ProcessGroup::size() const noexcept {
  return member_->context.size;
}
const std::string& ProcessGroup::backend() const noexcept {
  return member_->backend_name;
}

void ProcessGroup::set_timeout(std::chrono::milliseconds timeout) {
  check_timeout(timeout);
  member_->set_timeout(timeout);
}
std::chrono::milliseconds ProcessGroup::timeout() const noexcept {
  return member_->calls->limit();
}

void ProcessGroup::barrier() {
  member_->run({.operation = internal::Operation::barrier});
}
Work ProcessGroup::ibarrier() {
  return member_->begin({.operation = internal::Operation::barrier});
}

void ProcessGroup::broadcast(Buffer data, int root) {
  member_->run(member_->make.broadcast(data, root));
}
Work ProcessGroup::ibroadcast(Buffer data, int root) {
  return member_->begin(member_->make.broadcast(data, root));
}

void ProcessGroup::reduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
  member_->run(member_->make.reduce(in, out, root, op));
}
void ProcessGroup::reduce(Buffer data, int root, ReduceOp op) {
  reduce(data, data, root, op);
}
Work ProcessGroup::ireduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
  return member_->begin(member_->make.reduce(in, out, root, op));
}
Work ProcessGroup::ireduce(Buffer data, int root, ReduceOp op) {
  return ireduce(data, data, root, op);
}

void ProcessGroup::all_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
  member_->run(member_->make.all_reduce(in, out, op));
}
void ProcessGroup::all_reduce(Buffer data, ReduceOp op) {
  all_reduce(data, data, op);
}
Work ProcessGroup::iall_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
  return member_->begin(member_->make.all_reduce(in, out, op));
}
Work ProcessGroup::iall_reduce(Buffer data, ReduceOp op) {
  return iall_reduce(data, data, op);
}

void ProcessGroup::gather(ConstBuffer in, Buffer out, int root) {
  member_->run(member_->make.gather(in, out, root));
}
Work ProcessGroup::igather(ConstBuffer in, Buffer out, int root) {
  return member_->begin(member_->make.gather(in, out, root));
}

void ProcessGroup::gather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
  member_->run(member_->make.gather_v(in, out, counts, root));
}
Work ProcessGroup::igather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
  return member_->begin(member_->make.gather_v(in, out, counts, root));
}

void ProcessGroup::all_gather(ConstBuffer in, Buffer out) {
  member_->run(member_->make.all_gather(in, out));
}
Work ProcessGroup::iall_gather(ConstBuffer in, Buffer out) {
  return member_->begin(member_->make.all_gather(in, out));
}

void ProcessGroup::all_gather_v(ConstBuffer in, Buffer out, Counts counts) {
  member_->run(member_->make.all_gather_v(in, out, counts));
}
Work ProcessGroup::iall_gather_v(ConstBuffer in, Buffer out, Counts counts) {
  return member_->begin(member_->make.all_gather_v(in, out, counts));
}

void ProcessGroup::scatter(ConstBuffer in, Buffer out, int root) {
  member_->run(member_->make.scatter(in, out, root));
}
Work ProcessGroup::iscatter(ConstBuffer in, Buffer out, int root) {
  return member_->begin(member_->make.scatter(in, out, root));
}

void ProcessGroup::scatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
  member_->run(member_->make.scatter_v(in, counts, out, root));
}
Work ProcessGroup::iscatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
  return member_->begin(member_->make.scatter_v(in, counts, out, root));
}

void ProcessGroup::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  member_->run(member_->make.reduce_scatter(in, out, op));
}
Work ProcessGroup::ireduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  return member_->begin(member_->make.reduce_scatter(in, out, op));
}

void ProcessGroup::reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
  member_->run(member_->make.reduce_scatter_v(in, out, counts, op));
}
Work ProcessGroup::ireduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
  return member_->begin(member_->make.reduce_scatter_v(in, out, counts, op));
}

void ProcessGroup::all_to_all(ConstBuffer in, Buffer out) {
  member_->run(member_->make.all_to_all(in, out));
}
Work ProcessGroup::iall_to_all(ConstBuffer in, Buffer out) {
  return member_->begin(member_->make.all_to_all(in, out));
}

void ProcessGroup::all_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                Counts recv_counts) {
  member_->run(member_->make.all_to_all_v(in, send_counts, out, recv_counts));
}
Work ProcessGroup::iall_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                 Counts recv_counts) {
  return member_->begin(member_->make.all_to_all_v(in, send_counts, out, recv_counts));
}

void ProcessGroup::scan(ConstBuffer in, Buffer out, ReduceOp op) {
  internal::scan(*member_, in, out, op, false);
}
void ProcessGroup::exscan(ConstBuffer in, Buffer out, ReduceOp op) {
  internal::scan(*member_, in, out, op, true);
}

void ProcessGroup::send(ConstBuffer data, int to, int tag) {
  member_->run(P2POp::send(data, to, tag));
}
Work ProcessGroup::isend(ConstBuffer data, int to, int tag) {
  return member_->begin(member_->make.send(data, to, tag));
}

void ProcessGroup::recv(Buffer data, int from, int tag) {
  member_->run(P2POp::recv(data, from, tag));
}
Work ProcessGroup::irecv(Buffer data, int from, int tag) {
  return member_->begin(member_->make.recv(data, from, tag));
}

int ProcessGroup::probe(int tag) {
  return member_->probe(tag);
}

void ProcessGroup::batch_send_recv(internal::List<P2POp> ops) {
  member_->run(member_->make.batch_send_recv(ops));
}
Work ProcessGroup::batch_isend_irecv(internal::List<P2POp> ops) {
  return member_->begin(member_->make.batch_send_recv(ops));
}

void ProcessGroup::broadcast_object(std::string& object, int root) {
  internal::broadcast_object(*member_, object, root);
}
std::vector<std::string> ProcessGroup::gather_object(std::string_view object, int root) {
  return internal::gather_object(*member_, object, root);
}
std::vector<std::string> ProcessGroup::all_gather_object(std::string_view object) {
  return internal::all_gather_object(*member_, object);
}

std::optional<ProcessGroup> ProcessGroup::new_group(internal::List<int> ranks) {
  return make_subgroup(internal::check_members(*member_, ranks), 0);
}

std::optional<ProcessGroup> ProcessGroup::split(int color, int key) {
  return make_subgroup(internal::members_by_color(*member_, color, key), color);
}

ProcessGroup ProcessGroup::split_by_color(int color, int key) {
  if (color < 0) {
    throw internal::own_error(member_->context, ErrorKind::usage,
                              ": split_by_color of " + std::to_string(color) + ", below 0");
  }
  return *split(color, key);
}

ProcessGroup ProcessGroup::split_by_node() {
  const std::vector<int> members = internal::members_by_node(*member_);
  return *make_subgroup(members, members.front());
}

std::shared_ptr<void> ProcessGroup::allocate(std::size_t bytes) {
  return member_->allocate(bytes);
}

void ProcessGroup::abort() {
  member_->give_up("aborted the group");
}

ProcessGroup ProcessGroup::shrink(internal::List<int> excluded) {
  return ProcessGroup(internal::shrink(*member_, excluded));
}

ProcessGroup ProcessGroup::shrink() {
  return shrink(internal::lost_ranks(*member_));
}

/// `color` distinguishes the subgroups that one call makes.
std::optional<ProcessGroup> ProcessGroup::make_subgroup(const std::vector<int>& members,
                                                        int color) {
  const std::string name = std::to_string(member_->subgroup_count++) + "/" + std::to_string(color);
  auto context = internal::subgroup_context(member_->context, name, members);
  if (context) context->timeout = timeout();
  auto connected = internal::split_backend(*member_->backend, context, members);
  if (!context) return std::nullopt;
  return ProcessGroup(
      std::make_unique<internal::GroupMember>(std::move(*context), member_->backend_name,
                                              member_->calls->broadcast(), std::move(connected)));
}

}  // namespace ddp
