// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/task_maker.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

/// More elements than memory can hold, so sums of counts do not overflow.
constexpr std::size_t kMaxCount = std::numeric_limits<std::ptrdiff_t>::max() / 8;

std::vector<std::size_t> list(TaskMaker::Counts counts) {
  return {counts.begin(), counts.end()};
}

/// Such as the buffer of a tensor that was never allocated.
bool lacks_memory(const ConstBuffer& buffer) {
  return buffer.data == nullptr && buffer.count > 0;
}

/// "structs of 12 bytes".
std::string describe_type(const ConstBuffer& buffer) {
  const std::string named = name(buffer.type);
  if (buffer.type != DataType::opaque) return named;
  return named + " of " + std::to_string(buffer.width) + " bytes";
}

}  // namespace

Task TaskMaker::broadcast(const Buffer& data, int root) const {
  check_root(Operation::broadcast, root);
  return with_memory({.operation = Operation::broadcast,
                      .type = data.type,
                      .root = root,
                      .count = data.count,
                      .in = data.data,
                      .out = data.data},
                     data, data);
}

Task TaskMaker::reduce(const ConstBuffer& in, const Buffer& out, int root, ReduceOp op) const {
  constexpr auto kThis = Operation::reduce;
  check_root(kThis, root);
  check_op(kThis, in.type, op);
  if (rank_ == root) {
    check_types(kThis, in, out);
    check_count(kThis, "out", out.count, in.count);
  }
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .reduce = op,
                      .root = root,
                      .count = in.count,
                      .in = in.data,
                      .out = rank_ == root ? out.data : nullptr},
                     in, rank_ == root ? out : Buffer());
}

Task TaskMaker::all_reduce(const ConstBuffer& in, const Buffer& out, ReduceOp op) const {
  constexpr auto kThis = Operation::all_reduce;
  check_op(kThis, in.type, op);
  check_types(kThis, in, out);
  check_count(kThis, "out", out.count, in.count);
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .reduce = op,
                      .count = in.count,
                      .in = in.data,
                      .out = out.data},
                     in, out);
}

Task TaskMaker::gather(const ConstBuffer& in, const Buffer& out, int root) const {
  constexpr auto kThis = Operation::gather;
  check_root(kThis, root);
  if (rank_ == root) {
    check_types(kThis, in, out);
    check_count(kThis, "out", out.count, times_size(kThis, in.count));
  }
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .root = root,
                      .count = in.count,
                      .in = in.data,
                      .out = rank_ == root ? out.data : nullptr},
                     in, rank_ == root ? out : Buffer());
}

Task TaskMaker::gather_v(const ConstBuffer& in, const Buffer& out, Counts counts, int root) const {
  constexpr auto kThis = Operation::gather_v;
  check_root(kThis, root);
  Task task{.operation = kThis, .type = in.type, .root = root, .count = in.count, .in = in.data};
  if (rank_ != root) return with_memory(std::move(task), in, {});
  check_types(kThis, in, out);
  check_count(kThis, "out", out.count, sum(kThis, "counts", counts));
  check_count(kThis, "in", in.count, counts[static_cast<std::size_t>(rank_)]);
  task.out = out.data;
  task.recv_counts = list(counts);
  return with_memory(std::move(task), in, out);
}

Task TaskMaker::all_gather(const ConstBuffer& in, const Buffer& out) const {
  constexpr auto kThis = Operation::all_gather;
  check_types(kThis, in, out);
  check_count(kThis, "out", out.count, times_size(kThis, in.count));
  return with_memory(
      {.operation = kThis, .type = in.type, .count = in.count, .in = in.data, .out = out.data}, in,
      out);
}

Task TaskMaker::all_gather_v(const ConstBuffer& in, const Buffer& out, Counts counts) const {
  constexpr auto kThis = Operation::all_gather_v;
  check_types(kThis, in, out);
  check_count(kThis, "out", out.count, sum(kThis, "counts", counts));
  check_count(kThis, "in", in.count, counts[static_cast<std::size_t>(rank_)]);
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .count = in.count,
                      .in = in.data,
                      .out = out.data,
                      .recv_counts = list(counts)},
                     in, out);
}

Task TaskMaker::scatter(const ConstBuffer& in, const Buffer& out, int root) const {
  constexpr auto kThis = Operation::scatter;
  check_root(kThis, root);
  if (rank_ == root) {
    check_types(kThis, in, out);
    check_count(kThis, "in", in.count, times_size(kThis, out.count));
  }
  return with_memory({.operation = kThis,
                      .type = out.type,
                      .root = root,
                      .count = out.count,
                      .in = rank_ == root ? in.data : nullptr,
                      .out = out.data},
                     rank_ == root ? in : ConstBuffer(), out);
}

Task TaskMaker::scatter_v(const ConstBuffer& in, Counts counts, const Buffer& out, int root) const {
  constexpr auto kThis = Operation::scatter_v;
  check_root(kThis, root);
  Task task{
      .operation = kThis, .type = out.type, .root = root, .count = out.count, .out = out.data};
  if (rank_ != root) return with_memory(std::move(task), {}, out);
  check_types(kThis, in, out);
  check_count(kThis, "in", in.count, sum(kThis, "counts", counts));
  check_count(kThis, "out", out.count, counts[static_cast<std::size_t>(rank_)]);
  task.in = in.data;
  task.send_counts = list(counts);
  return with_memory(std::move(task), in, out);
}

Task TaskMaker::reduce_scatter(const ConstBuffer& in, const Buffer& out, ReduceOp op) const {
  constexpr auto kThis = Operation::reduce_scatter;
  check_op(kThis, in.type, op);
  check_types(kThis, in, out);
  check_count(kThis, "in", in.count, times_size(kThis, out.count));
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .reduce = op,
                      .count = out.count,
                      .in = in.data,
                      .out = out.data},
                     in, out);
}

Task TaskMaker::reduce_scatter_v(const ConstBuffer& in, const Buffer& out, Counts counts,
                                 ReduceOp op) const {
  constexpr auto kThis = Operation::reduce_scatter_v;
  check_op(kThis, in.type, op);
  check_types(kThis, in, out);
  check_count(kThis, "in", in.count, sum(kThis, "counts", counts));
  check_count(kThis, "out", out.count, counts[static_cast<std::size_t>(rank_)]);
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .reduce = op,
                      .count = out.count,
                      .in = in.data,
                      .out = out.data,
                      .send_counts = list(counts)},
                     in, out);
}

Task TaskMaker::all_to_all(const ConstBuffer& in, const Buffer& out) const {
  constexpr auto kThis = Operation::all_to_all;
  check_types(kThis, in, out);
  check_count(kThis, "out", out.count, in.count);
  const std::size_t block = in.count / static_cast<std::size_t>(size_);
  if (block * static_cast<std::size_t>(size_) != in.count) {
    refuse("all_to_all of " + std::to_string(in.count) +
           " elements, which cannot be cut into equal blocks for " + std::to_string(size_) +
           " ranks");
  }
  return with_memory(
      {.operation = kThis, .type = in.type, .count = block, .in = in.data, .out = out.data}, in,
      out);
}

Task TaskMaker::all_to_all_v(const ConstBuffer& in, Counts send_counts, const Buffer& out,
                             Counts recv_counts) const {
  constexpr auto kThis = Operation::all_to_all_v;
  check_types(kThis, in, out);
  check_count(kThis, "in", in.count, sum(kThis, "send_counts", send_counts));
  check_count(kThis, "out", out.count, sum(kThis, "recv_counts", recv_counts));
  const auto own = static_cast<std::size_t>(rank_);
  check_count(kThis, "own block of out", recv_counts[own], send_counts[own]);
  return with_memory({.operation = kThis,
                      .type = in.type,
                      .in = in.data,
                      .out = out.data,
                      .send_counts = list(send_counts),
                      .recv_counts = list(recv_counts)},
                     in, out);
}

Transfer TaskMaker::message(const P2POp& op) const {
  return transfer(op.sends ? Operation::send : Operation::recv, op);
}

Task TaskMaker::send(const ConstBuffer& data, int to, int tag) const {
  const P2POp op = P2POp::send(data, to, tag);
  return with_memory({.operation = Operation::send, .transfers = {message(op)}}, data, {});
}

Task TaskMaker::recv(const Buffer& data, int from, int tag) const {
  const P2POp op = P2POp::recv(data, from, tag);
  return with_memory({.operation = Operation::recv, .transfers = {message(op)}}, {}, data);
}

Task TaskMaker::batch_send_recv(std::span<const P2POp> ops) const {
  Task task{.operation = Operation::batch_send_recv};
  for (const P2POp& op : ops) {
    task.transfers.push_back(transfer(op.sends ? Operation::send : Operation::recv, op));
    if (op.buffer.on_device != ops.front().buffer.on_device) {
      refuse("batch_send_recv of buffers in host memory and on a device");
    }
    if (op.buffer.on_device && op.buffer.stream != ops.front().buffer.stream) {
      refuse("batch_send_recv of buffers with several streams");
    }
  }
  return ops.empty() ? task : with_memory(std::move(task), {}, ops.front().buffer);
}

/// Adds the memory (host or device, and stream) of the buffers that this rank uses. A buffer that
/// it does not use is empty.
Task TaskMaker::with_memory(Task task, const ConstBuffer& in, const Buffer& out) const {
  check_size(task.operation, std::max(in.count, out.count));
  if (lacks_memory(in) || lacks_memory(out)) {
    refuse(std::string(name(task.operation)) + " of a buffer whose address is null");
  }
  if (task.type == DataType::opaque) {
    const ConstBuffer structs = in.type == task.type ? in : ConstBuffer(out);
    const std::size_t most = std::max(in.count, out.count);
    const Parts parts = moved_parts(task.operation, structs, most);
    task = in_parts(std::move(task), parts);
  }
  const auto is_unused = [](const ConstBuffer& buffer) {
    return buffer.data == nullptr && buffer.count == 0;
  };
  if (is_unused(out)) {
    task.on_device = in.on_device;
    task.stream = in.stream;
    return task;
  }
  if (!is_unused(in) && in.on_device != out.on_device) {
    const auto place = [](bool on_device) { return on_device ? "on a device" : "in host memory"; };
    refuse(std::string(name(task.operation)) + ": in is " + place(in.on_device) + ", but out " +
           place(out.on_device));
  }
  task.on_device = out.on_device;
  task.stream = out.stream;
  return task;
}

Transfer TaskMaker::transfer(Operation operation, const P2POp& op) const {
  check_root(operation, op.peer);
  if (op.peer == rank_) {
    refuse(std::string(name(operation)) + (op.sends ? " to" : " from") + " itself");
  }
  check_size(operation, op.buffer.count);
  if (lacks_memory(op.buffer)) {
    refuse(std::string(name(operation)) + " of a buffer whose address is null");
  }
  const Parts parts = moved_parts(operation, op.buffer, op.buffer.count);
  return {op.sends, op.peer, op.tag, parts.type, op.buffer.count * parts.count, op.buffer.data};
}

void TaskMaker::refuse(const std::string& what) const {
  throw Error(ErrorKind::usage, "ddp: rank " + std::to_string(named_) + ": " + what);
}

void TaskMaker::check_root(Operation operation, int root) const {
  if (root >= 0 && root < size_) return;
  refuse(std::string(name(operation)) + (is_from_root(operation) ? " from rank " : " to rank ") +
         std::to_string(root) + ", but ranks are 0 to " + std::to_string(size_ - 1));
}

void TaskMaker::check_types(Operation operation, const ConstBuffer& in, const Buffer& out) const {
  if (in.type == out.type && in.width == out.width) return;
  refuse(std::string(name(operation)) + " cannot turn " + describe_type(in) + " into " +
         describe_type(out) + ": in and out must be of one type");
}

/// The parts that a call moves: the bytes of structs, else the elements themselves.
Parts TaskMaker::moved_parts(Operation operation, const ConstBuffer& buffer,
                             std::size_t count) const {
  if (buffer.type != DataType::opaque) return {buffer.type, 1};
  if (buffer.width == 0) {
    refuse(std::string(name(operation)) + " of structs whose size is not set in Buffer::width");
  }
  if (count > kMaxCount / buffer.width) {
    refuse(std::string(name(operation)) + " of " + std::to_string(count) + " " +
           describe_type(buffer) + ", which is more than memory holds");
  }
  return parts_of(buffer.type, buffer.width);
}

void TaskMaker::check_op(Operation operation, DataType type, ReduceOp op) const {
  if (allows(type, op)) return;
  refuse(std::string(name(operation)) + " cannot take the " + name(op) + " of " + name(type) +
         ": only of " + types_with(op));
}

void TaskMaker::check_count(Operation operation, const char* which, std::size_t count,
                            std::size_t needed) const {
  if (count == needed) return;
  refuse(std::string(name(operation)) + " needs " + std::to_string(needed) + " elements in " +
         which + ", which has " + std::to_string(count));
}

/// Usually such a count is a negative difference that wrapped around.
void TaskMaker::check_size(Operation operation, std::size_t count) const {
  if (count <= kMaxCount) return;
  refuse(std::string(name(operation)) + " of " + std::to_string(count) +
         " elements, which is more than memory holds");
}

std::size_t TaskMaker::sum(Operation operation, const char* which, Counts counts) const {
  if (counts.size() != static_cast<std::size_t>(size_)) {
    refuse(std::string(name(operation)) + " needs " + std::to_string(size_) + " numbers in " +
           which + ", one for each rank, which has " + std::to_string(counts.size()));
  }
  std::size_t total = 0;
  for (std::size_t count : counts) {
    if (count > kMaxCount - total) refuse(std::string(which) + " add up to more than memory holds");
    total += count;
  }
  return total;
}

std::size_t TaskMaker::times_size(Operation operation, std::size_t count) const {
  const auto ranks = static_cast<std::size_t>(size_);
  if (count <= kMaxCount / ranks) return count * ranks;
  refuse(std::string(name(operation)) + " of " + std::to_string(count) + " elements from each of " +
         std::to_string(size_) + " ranks, which is more than memory holds");
}

}  // namespace ddp::internal
