// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ddp/process_group.h>

namespace ddprun::tests {

/// The calls of a group; each is begun and then waited for.
class BegunCalls {
 public:
  using Counts = ddp::ProcessGroup::Counts;
  using In = ddp::ConstBuffer;
  using Out = ddp::Buffer;
  using Op = ddp::ReduceOp;

  explicit BegunCalls(ddp::ProcessGroup& group) : group_(group) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  void broadcast(Out data, int root) { group_.ibroadcast(data, root).wait(); }
  void reduce(In in, Out out, int root, Op op) { group_.ireduce(in, out, root, op).wait(); }
  void reduce(Out data, int root, Op op) { group_.ireduce(data, root, op).wait(); }
  void all_reduce(In in, Out out, Op op) { group_.iall_reduce(in, out, op).wait(); }
  void all_reduce(Out data, Op op = Op::sum) { group_.iall_reduce(data, op).wait(); }
  void gather(In in, Out out, int root) { group_.igather(in, out, root).wait(); }
  void gather_v(In in, Out out, Counts counts, int root) {
    group_.igather_v(in, out, counts, root).wait();
  }
  void all_gather(In in, Out out) { group_.iall_gather(in, out).wait(); }
  void all_gather_v(In in, Out out, Counts counts) { group_.iall_gather_v(in, out, counts).wait(); }
  void scatter(In in, Out out, int root) { group_.iscatter(in, out, root).wait(); }
  void scatter_v(In in, Counts counts, Out out, int root) {
    group_.iscatter_v(in, counts, out, root).wait();
  }
  void reduce_scatter(In in, Out out, Op op = Op::sum) {
    group_.ireduce_scatter(in, out, op).wait();
  }
  void reduce_scatter_v(In in, Out out, Counts counts, Op op) {
    group_.ireduce_scatter_v(in, out, counts, op).wait();
  }
  void all_to_all(In in, Out out) { group_.iall_to_all(in, out).wait(); }
  void all_to_all_v(In in, Counts send_counts, Out out, Counts recv_counts) {
    group_.iall_to_all_v(in, send_counts, out, recv_counts).wait();
  }
  void barrier() { group_.ibarrier().wait(); }

 private:
  ddp::ProcessGroup& group_;
};

}  // namespace ddprun::tests
