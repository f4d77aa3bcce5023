// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "collectives/call/parts.h"
#include "collectives/call/task.h"
#include "ddp/types.h"

namespace ddp::internal {

/// Checks the arguments of one rank's calls, and makes tasks of them. Throws ddp::Error of kind
/// usage: for a root that is no rank, types that differ or do not have the operation, counts that
/// do not match, one buffer in host memory and the other on a device.
class TaskMaker {
 public:
  using Counts = std::span<const std::size_t>;

  /// `named` is this rank in error messages.
  TaskMaker(int rank, int size, int named) : rank_(rank), size_(size), named_(named) {}

  Task broadcast(const Buffer& data, int root) const;
  Task reduce(const ConstBuffer& in, const Buffer& out, int root, ReduceOp op) const;
  Task all_reduce(const ConstBuffer& in, const Buffer& out, ReduceOp op) const;
  Task gather(const ConstBuffer& in, const Buffer& out, int root) const;
  Task gather_v(const ConstBuffer& in, const Buffer& out, Counts counts, int root) const;
  Task all_gather(const ConstBuffer& in, const Buffer& out) const;
  Task all_gather_v(const ConstBuffer& in, const Buffer& out, Counts counts) const;
  Task scatter(const ConstBuffer& in, const Buffer& out, int root) const;
  Task scatter_v(const ConstBuffer& in, Counts counts, const Buffer& out, int root) const;
  Task reduce_scatter(const ConstBuffer& in, const Buffer& out, ReduceOp op) const;
  Task reduce_scatter_v(const ConstBuffer& in, const Buffer& out, Counts counts, ReduceOp op) const;
  Task all_to_all(const ConstBuffer& in, const Buffer& out) const;
  Task all_to_all_v(const ConstBuffer& in, Counts send_counts, const Buffer& out,
                    Counts recv_counts) const;

  /// A message, by itself or as a task.
  Transfer message(const P2POp& op) const;
  Task send(const ConstBuffer& data, int to, int tag) const;
  Task recv(const Buffer& data, int from, int tag) const;
  Task batch_send_recv(std::span<const P2POp> ops) const;

 private:
  Task with_memory(Task task, const ConstBuffer& in, const Buffer& out) const;
  Transfer transfer(Operation operation, const P2POp& op) const;
  [[noreturn]] void refuse(const std::string& what) const;
  void check_root(Operation operation, int root) const;
  void check_types(Operation operation, const ConstBuffer& in, const Buffer& out) const;
  Parts moved_parts(Operation operation, const ConstBuffer& buffer, std::size_t count) const;
  void check_op(Operation operation, DataType type, ReduceOp op) const;
  void check_count(Operation operation, const char* which, std::size_t count,
                   std::size_t needed) const;
  void check_size(Operation operation, std::size_t count) const;
  std::size_t sum(Operation operation, const char* which, Counts counts) const;
  std::size_t times_size(Operation operation, std::size_t count) const;

  int rank_;
  int size_;
  int named_;
};

}  // namespace ddp::internal
