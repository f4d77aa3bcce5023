// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/calls.h"

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/nccl/library.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"
#include "collectives/call/parts.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"

namespace ddp::internal {
namespace {

/// Since NCCL 2.24; older headers do not name them.
constexpr auto kFloat8E4m3 = static_cast<ncclDataType_t>(10);
constexpr auto kFloat8E5m2 = static_cast<ncclDataType_t>(11);

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::int16:  // moved, not combined
    case DataType::uint16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::int8:
      return ncclInt8;
    case DataType::uint8:
      return ncclUint8;
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint32:
      return ncclUint32;
    case DataType::boolean:
      return ncclUint8;
    case DataType::float8_e4m3:
      return kFloat8E4m3;
    case DataType::float8_e5m2:
      return kFloat8E5m2;
    case DataType::uint64:
    case DataType::complex64:  // their parts are moved and combined
    case DataType::complex128:
    case DataType::opaque:
      break;
  }
  return ncclUint64;
}

bool is_float8(DataType type) {
  return type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
}

bool has_fractions(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float32 ||
         type == DataType::float64 || is_float8(type);
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

/// `size` is the group's. With one rank, NCCL cannot average 8-bit floats, and takes a kernel for
/// other types, while a sum is at most a copy.
ncclRedOp_t nccl_op(ReduceOp op, int size) {
  switch (op) {
    case ReduceOp::avg:
      return size == 1 ? ncclSum : ncclAvg;
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    default:
      return ncclSum;
  }
}

bool swaps_in_place(const Task& task) {
  return (task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v) &&
         task.in == task.out && task.in != nullptr;
}

CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

/// Device memory for the work that a stream gets during a scope. It is allocated and freed in the
/// order of the stream.
class Scratch {
 public:
  Scratch(std::size_t bytes, CUstream stream) : stream_(stream) {
    if (bytes > 0) check_cuda(cuda().cuMemAllocAsync(&memory_, bytes, stream), "cuMemAllocAsync");
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (memory_ != 0) cuda().cuMemFreeAsync(memory_, stream_);
  }

  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's addresses are numbers
  char* data() const { return reinterpret_cast<char*>(memory_); }

 private:
  CUdeviceptr memory_ = 0;
  CUstream stream_;
};

void copy(void* to, const void* from, std::size_t bytes, CUstream stream) {
  if (bytes == 0 || to == from) return;
  check_cuda(cuda().cuMemcpyAsync(address(to), address(from), bytes, stream), "cuMemcpyAsync");
}

/// Sends nothing if there are no bytes.
void send(const Outgoing& out, int to, ncclComm_t handle, CUstream stream) {
  if (out.bytes == 0) return;
  NcclCommunicator::check(nccl().ncclSend(out.data, out.bytes, ncclUint8, to, handle, stream));
}

void receive(const Incoming& in, int from, ncclComm_t handle, CUstream stream) {
  if (in.bytes == 0) return;
  NcclCommunicator::check(nccl().ncclRecv(in.data, in.bytes, ncclUint8, from, handle, stream));
}

}  // namespace

const char* NcclCalls::find_obstacle(const Task& task) {
  if (!reduces(task.operation)) return nullptr;
  if (is_bitwise(task.reduce)) return "NCCL has no bitwise operations";
  if (task.type == DataType::int16 || task.type == DataType::uint16) {
    return "NCCL has no integers of 16 bits";
  }
  if (parts_of(task.type).count > 1 && task.reduce == ReduceOp::product) {
    return "NCCL has no complex numbers";
  }
  const bool needs_float8 = is_float8(task.type) && nccl_version() < NCCL_VERSION(2, 24, 0);
  return needs_float8 ? "this needs NCCL 2.24 or later" : nullptr;
}

bool NcclCalls::has_steps(const Task& task) {
  return swaps_in_place(task);
}

void NcclCalls::enqueue(const Task& task, const std::string& where, CUstream stream) {
  if (is_point_to_point(task.operation)) return transfer(task, where, stream);
  const Parts parts = parts_of(task.type);
  if (parts.count > 1) return enqueue(in_parts(task, parts), where, stream);
  const bool is_moved_as_byte = is_float8(task.type) && !reduces(task.operation);
  const ncclDataType_t type = is_moved_as_byte ? ncclUint8 : nccl_type(task.type);
  const ncclRedOp_t op = nccl_op(task.reduce, communicator_.context().size);
  const auto launch = [&](const auto& call) {
    communicator_.launch(where, [&](ncclComm_t handle) { NcclCommunicator::check(call(handle)); });
  };
  switch (task.operation) {
    case Operation::broadcast:
      return launch([&](ncclComm_t handle) {
        return nccl().ncclBroadcast(task.in, task.out, task.count, type, task.root, handle, stream);
      });
    case Operation::reduce:
      return launch([&](ncclComm_t handle) {
        return nccl().ncclReduce(task.in, task.out, task.count, type, op, task.root, handle,
                                 stream);
      });
    case Operation::all_reduce:
      if (op == ncclAvg && has_fractions(task.type)) return average(task, where, stream);
      return launch([&](ncclComm_t handle) {
        return nccl().ncclAllReduce(task.in, task.out, task.count, type, op, handle, stream);
      });
    case Operation::all_gather:
      return launch([&](ncclComm_t handle) {
        return nccl().ncclAllGather(task.in, task.out, task.count, type, handle, stream);
      });
    case Operation::reduce_scatter:
      return launch([&](ncclComm_t handle) {
        return nccl().ncclReduceScatter(task.in, task.out, task.count, type, op, handle, stream);
      });
    case Operation::reduce_scatter_v:
      return reduce_scatter_v(task, where, stream);
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return move(task, where, stream);
    case Operation::barrier:
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;  // not on a device; see NcclBackend::allocate() and transfer()
  }
}

void NcclCalls::average(const Task& task, const std::string& where, CUstream stream) {
  const Reduction rounding = reduction(task.type, ReduceOp::avg);
  const float one = 1;
  const double wide_one = 1;
  const bool is_wide = rounding.sum_width == sizeof(double);
  alignas(double) std::array<char, sizeof(double)> fraction{};  // 1 / ranks, of the type
  rounding.store(fraction.data(), is_wide ? static_cast<const void*>(&wide_one) : &one, 1,
                 communicator_.context().size);
  const ncclDataType_t type = nccl_type(task.type);
  communicator_.launch(where, [&](ncclComm_t handle) {
    ncclRedOp_t op = ncclSum;
    NcclCommunicator::check(nccl().ncclRedOpCreatePreMulSum(&op, fraction.data(), type,
                                                            ncclScalarHostImmediate, handle));
    NcclCommunicator::check(
        nccl().ncclAllReduce(task.in, task.out, task.count, type, op, handle, stream));
    NcclCommunicator::check(nccl().ncclRedOpDestroy(op, handle));
  });
}

void NcclCalls::reduce_scatter_v(const Task& task, const std::string& where, CUstream stream) {
  const GroupContext& context = communicator_.context();
  const Blocks blocks(task.send_counts, task.count, context.size);
  const char* const in = static_cast<const char*>(task.in);
  communicator_.launch(where, [&](ncclComm_t handle) {
    for (int rank = 0; rank < context.size; ++rank) {
      if (blocks.count(rank) == 0) continue;
      NcclCommunicator::check(nccl().ncclReduce(
          in + blocks.begin(rank) * size_of(task.type), rank == context.rank ? task.out : nullptr,
          blocks.count(rank), nccl_type(task.type), nccl_op(task.reduce, context.size), rank,
          handle, stream));
    }
  });
}

/// Sends every block directly from the rank that has it to the one that gets it.
void NcclCalls::move(const Task& task, const std::string& where, CUstream stream) {
  const GroupContext& context = communicator_.context();
  Task copied = task;
  const Route route(copied, context.rank, context.size);
  const Blocks all(task.send_counts, task.count, context.size);
  const std::size_t bytes = swaps_in_place(task) ? all.total() * size_of(task.type) : 0;
  const Scratch scratch(bytes, stream);
  if (bytes > 0) {  // in place: received data must not overwrite data yet to be sent
    copy(scratch.data(), task.in, bytes, stream);
    copied.in = scratch.data();
  }
  const Outgoing own = route.to(context.rank);
  copy(route.from(context.rank).data, own.data, route.from(context.rank).bytes, stream);
  communicator_.launch(where, [&](ncclComm_t handle) {
    for (int other = 0; other < context.size; ++other) {
      if (other == context.rank) continue;
      send(route.to(other), other, handle, stream);
      receive(route.from(other), other, handle, stream);
    }
  });
}

/// NCCL's messages have no tags: between two ranks they match in the order of the calls.
void NcclCalls::transfer(const Task& task, const std::string& where, CUstream stream) {
  communicator_.launch(where, [&](ncclComm_t handle) {
    for (const Transfer& one : task.transfers) {
      const std::size_t bytes = one.count * size_of(one.type);
      char* const data = static_cast<char*>(one.data);
      if (one.sends) {
        send({data, bytes}, one.peer, handle, stream);
      } else {
        receive({data, bytes}, one.peer, handle, stream);
      }
    }
  });
}

}  // namespace ddp::internal
