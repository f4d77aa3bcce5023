// SPDX-License-Identifier: Apache-2.0
// The operations of the tests' NCCL.

#include <cstring>
#include <vector>

#include "collectives/call/reduction.h"
#include "tests/collectives/fake_gpu/communicator.h"
#include "tests/collectives/fake_gpu/nccl.h"

using ddp::DataType;
using ddp::ReduceOp;
using fake_gpu::add;
using fake_gpu::Communicator;
using fake_gpu::Outgoing;
using fake_gpu::Part;

namespace {

/// Since NCCL 2.24; older headers do not name them.
constexpr int kFloat8E4m3 = 10;
constexpr int kFloat8E5m2 = 11;

std::size_t width(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8:
    case kFloat8E4m3:
    case kFloat8E5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

DataType ours(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case kFloat8E4m3:
      return DataType::float8_e4m3;
    case kFloat8E5m2:
      return DataType::float8_e5m2;
    case ncclInt8:
      return DataType::int8;
    case ncclUint8:
      return DataType::uint8;
    case ncclFloat16:
      return DataType::float16;
    case ncclBfloat16:
      return DataType::bfloat16;
    case ncclInt32:
      return DataType::int32;
    case ncclUint32:
      return DataType::uint32;
    case ncclUint64:
      return DataType::uint64;
    case ncclFloat32:
      return DataType::float32;
    case ncclFloat64:
      return DataType::float64;
    default:
      return DataType::int64;
  }
}

std::vector<char> bytes_at(const void* data, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  return {begin, begin + bytes};
}

/// a = a OP b, rounded to their type.
void combine(std::vector<char>& a, const std::vector<char>& b, ncclDataType_t type, ReduceOp op) {
  const auto by = ddp::internal::reduction(ours(type), op);
  const std::size_t count = a.size() / width(type);
  std::vector<char> wide(count * by.sum_width);
  by.load(wide.data(), a.data(), count);
  by.add(wide.data(), b.data(), count);
  by.store(a.data(), wide.data(), count, 1);
}

/// A reduction, and the number by which it multiplies each element first: of the type, or empty.
struct Combination {
  ncclDataType_t type;
  ReduceOp op;
  std::vector<char> factor;
};

/// 1 / ranks, rounded to the type, a floating-point type.
std::vector<char> fraction(ncclDataType_t type, int ranks) {
  const auto by = ddp::internal::reduction(ours(type), ReduceOp::avg);
  const float one = 1;
  const double wide_one = 1;
  std::vector<char> factor(width(type));
  const bool is_double = by.sum_width == sizeof(double);
  by.store(factor.data(), is_double ? static_cast<const void*>(&wide_one) : &one, 1, ranks);
  return factor;
}

/// Averages as NCCL's kernels do: sums elements that were divided before.
Combination combination(const Communicator& self, ncclDataType_t type, ncclRedOp_t op) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                               ReduceOp::sum};
  if (op >= ncclNumOps) return {type, ReduceOp::sum, self.factors.at(op - ncclNumOps)};
  return {type, kOps[op], op == ncclAvg ? fraction(type, self.size) : std::vector<char>()};
}

void multiply(std::vector<char>& elements, const Combination& by) {
  std::vector<char> factors;
  while (factors.size() < elements.size()) {
    factors.insert(factors.end(), by.factor.begin(), by.factor.end());
  }
  combine(elements, factors, by.type, ReduceOp::product);
}

/// Combines this rank's elements, at `in`, and the others'; rounds at each step.
std::vector<char> combine(const void* in, std::size_t count, const Combination& by,
                          std::vector<Part> came) {
  std::vector<char> result = bytes_at(in, count * width(by.type));
  if (!by.factor.empty()) {
    multiply(result, by);
    for (Part& part : came) multiply(part.data, by);
  }
  for (const Part& part : came) combine(result, part.data, by.type, by.op);
  return result;
}

bool is_float8(ncclDataType_t type) {
  return static_cast<int>(type) == kFloat8E4m3 || static_cast<int>(type) == kFloat8E5m2;
}

/// Averages of one rank's elements use another kernel, which has no floats of 8 bits.
bool is_refused(const Communicator& self, ncclDataType_t type, ncclRedOp_t op) {
  return self.size == 1 && op == ncclAvg && is_float8(type);
}

/// Whether NCCL 2.30 uses a kernel that it does not have, as it does for averages in windows.
bool lacks_kernel(const void* in, const void* out, ncclDataType_t type, ncclRedOp_t op) {
  const bool is_float =
      is_float8(type) || type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32;
  return op == ncclAvg && is_float && fake_gpu::is_in_window(in) && fake_gpu::is_in_window(out);
}

template <class Wants>
std::vector<int> others(const Communicator& self, Wants wants) {
  std::vector<int> ranks;
  for (int rank = 0; rank < self.size; ++rank) {
    if (rank != self.rank && wants(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Part> blank(const std::vector<int>& ranks, std::size_t bytes) {
  std::vector<Part> parts;
  for (const int rank : ranks) parts.push_back({rank, std::vector<char>(bytes)});
  return parts;
}

/// Sends `receivers` a block each, at in + block(receiver).
template <class Place>
Outgoing sends(const std::vector<int>& receivers, const void* in, std::size_t bytes, Place place) {
  return {receivers, [=] {
            std::vector<Part> parts;
            for (const int rank : receivers) {
              parts.push_back({rank, bytes_at(static_cast<const char*>(in) + place(rank), bytes)});
            }
            return parts;
          }};
}

constexpr auto kSamePlace = [](int /*rank*/) { return std::size_t{0}; };
constexpr auto kEveryone = [](int /*rank*/) { return true; };

void put(void* out, const std::vector<char>& data) {
  if (!data.empty()) std::memcpy(out, data.data(), data.size());
}

}  // namespace

extern "C" {

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  if (residence != ncclScalarHostImmediate) return ncclInvalidArgument;
  std::vector<std::vector<char>>& factors = handle->self->factors;
  *op = static_cast<ncclRedOp_t>(ncclNumOps + factors.size());
  factors.push_back(bytes_at(scalar, width(type)));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  std::vector<char>& factor = handle->self->factors.at(op - ncclNumOps);
  if (factor.empty()) return ncclInvalidArgument;
  factor.clear();
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  const bool gives = self.rank == root;
  return add(handle, {sends(others(self, [=](int) { return gives; }), in, bytes, kSamePlace),
                      blank(others(self, [=](int rank) { return rank == root; }), bytes),
                      [=](const std::vector<Part>& came) {
                        if (!gives) put(out, came.front().data);
                      },
                      stream});
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  if (is_refused(self, type, op)) return ncclInvalidArgument;
  const std::size_t bytes = count * width(type);
  const bool gets = self.rank == root;
  return add(handle,
             {sends(others(self, [=](int rank) { return rank == root; }), in, bytes, kSamePlace),
              blank(others(self, [=](int) { return gets; }), bytes),
              [=, by = combination(self, type, op)](const std::vector<Part>& came) {
                if (gets) put(out, combine(in, count, by, came));
              },
              stream});
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  if (is_refused(self, type, op)) return ncclInvalidArgument;
  if (lacks_kernel(in, out, type, op)) return fake_gpu::refuse("invalid device function");
  const std::size_t bytes = count * width(type);
  return add(handle, {sends(others(self, kEveryone), in, bytes, kSamePlace),
                      blank(others(self, kEveryone), bytes),
                      [=, by = combination(self, type, op)](const std::vector<Part>& came) {
                        put(out, combine(in, count, by, came));
                      },
                      stream});
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  const std::size_t bytes = count * width(type);
  return add(
      handle,
      {sends(others(self, kEveryone), in, bytes, kSamePlace), blank(others(self, kEveryone), bytes),
       [=, &self](const std::vector<Part>& came) {
         char* const begin = static_cast<char*>(out);
         std::memmove(begin + static_cast<std::size_t>(self.rank) * bytes, in, bytes);
         for (const Part& part : came) {
           put(begin + static_cast<std::size_t>(part.peer) * bytes, part.data);
         }
       },
       stream});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t handle, CUstream stream) {
  const Communicator& self = *handle->self;
  if (is_refused(self, type, op)) return ncclInvalidArgument;
  const std::size_t bytes = count * width(type);
  const auto place = [bytes](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  return add(
      handle,
      {sends(others(self, kEveryone), in, bytes, place), blank(others(self, kEveryone), bytes),
       [=, own = static_cast<const char*>(in) + place(self.rank), by = combination(self, type, op)](
           const std::vector<Part>& came) { put(out, combine(own, count, by, came)); },
       stream});
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, CUstream stream) {
  return add(handle, {sends({peer}, in, count * width(type), kSamePlace),
                      {},
                      [](const std::vector<Part>& /*came*/) {},
                      stream});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, CUstream stream) {
  return add(handle, {{{}, [] { return std::vector<Part>(); }},
                      blank({peer}, count * width(type)),
                      [=](const std::vector<Part>& came) { put(out, came.front().data); },
                      stream});
}

}  // extern "C"
