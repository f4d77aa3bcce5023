// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/plugin_calls.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/call/reduction.h"

namespace ddp::internal {
namespace {

template <DataType kType, ReduceOp kOp>
void combine(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  reduction(kType, kOp).add(in_out, in, static_cast<std::size_t>(*count));
}

/// The operation as the other backends do it.
template <DataType kType, ReduceOp kOp>
MPI_Op own_op() {
  static const MPI_Op op = [] {
    MPI_Op made = MPI_OP_NULL;
    must(MPI_Op_create(&combine<kType, kOp>, 1, &made));
    return made;
  }();
  return op;
}

/// Sums of integers of 8 or 16 bits wrap around. Open MPI 4.1's MPI_SUM saturates if it uses vector
/// instructions (ompi/mca/op/avx, _mm512_adds_epi8 and _epi16).
MPI_Op mpi_sum(DataType type) {
  switch (size_of(type)) {
    case 1:
      return own_op<DataType::uint8, ReduceOp::sum>();
    case 2:
      return own_op<DataType::uint16, ReduceOp::sum>();
    default:
      return MPI_SUM;
  }
}

/// A NaN is the result. With MPI_MIN and MPI_MAX the result would depend on the order of ranks.
template <ReduceOp kOp>
MPI_Op mpi_extreme(DataType type, MPI_Op of_integers) {
  if (type == DataType::float32) return own_op<DataType::float32, kOp>();
  if (type == DataType::float64) return own_op<DataType::float64, kOp>();
  return of_integers;
}

MPI_Op mpi_op(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return mpi_sum(type);
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return mpi_extreme<ReduceOp::min>(type, MPI_MIN);
    case ReduceOp::max:
      return mpi_extreme<ReduceOp::max>(type, MPI_MAX);
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bor:
      return MPI_BOR;
    case ReduceOp::bxor:
      break;
  }
  return MPI_BXOR;
}

/// Counts and displacements of the blocks of all ranks, as MPI takes them.
struct IntBlocks {
  std::vector<int> counts;
  std::vector<int> begins;

  explicit IntBlocks(const std::vector<std::size_t>& sizes) {
    int begin = 0;
    for (const std::size_t size : sizes) {
      counts.push_back(static_cast<int>(size));
      begins.push_back(begin);
      begin += counts.back();
    }
  }
};

/// A task with MPI's types.
class CollectiveCall {
 public:
  CollectiveCall(const Task& task, MPI_Comm comm)
      : task_(task),
        comm_(comm),
        type_(mpi_type(task.type)),
        op_(mpi_op(task.type, task.reduce)),
        width_(size_of(task.type)) {
    must(MPI_Comm_rank(comm, &rank_));
  }

  void run() {
    switch (task_.operation) {
      case Operation::broadcast:
        must(MPI_Bcast(task_.out, count(), type_, task_.root, comm_));
        return;
      case Operation::reduce:
        must(MPI_Reduce(in_or_place(), task_.out, count(), type_, op_, task_.root, comm_));
        return;
      case Operation::all_reduce:
        must(MPI_Allreduce(in_or_place(), task_.out, count(), type_, op_, comm_));
        return;
      case Operation::gather:
        return gather();
      case Operation::gather_v:
        return gather_v();
      case Operation::all_gather:
        must(MPI_Allgather(own_block_or_in(all_out()), count(), type_, task_.out, count(), type_,
                           comm_));
        return;
      case Operation::all_gather_v:
        return all_gather_v();
      case Operation::scatter:
        return scatter();
      case Operation::scatter_v:
        return scatter_v();
      case Operation::reduce_scatter:
      case Operation::reduce_scatter_v:
        return reduce_scatter();
      case Operation::all_to_all:
      case Operation::all_to_all_v:
        return all_to_all();
      case Operation::barrier:
      case Operation::allocate:
      case Operation::send:
      case Operation::recv:
      case Operation::batch_send_recv:
        return;  // MpiAgreement did the barrier; see MpiMessages
    }
  }

 private:
  int count() const { return static_cast<int>(task_.count); }
  bool is_root() const { return rank_ == task_.root; }

  /// The offset of this rank's block in memory with a block for each rank.
  std::size_t own_begin(const std::vector<std::size_t>& counts) const {
    const auto own = static_cast<std::size_t>(rank_);
    if (counts.empty()) return own * task_.count * width_;
    std::size_t begin = 0;
    for (std::size_t rank = 0; rank < own; ++rank) begin += counts[rank];
    return begin * width_;
  }
  const char* all_out() const {
    return static_cast<const char*>(task_.out) + own_begin(task_.recv_counts);
  }
  const char* all_in() const {
    return static_cast<const char*>(task_.in) + own_begin(task_.send_counts);
  }

  /// MPI's input argument if the call puts this rank's block of the result at `place`.
  const void* own_block_or_in(const char* place) const {
    return task_.in == place ? MPI_IN_PLACE : task_.in;
  }

  const void* in_or_place() const { return task_.in == task_.out ? MPI_IN_PLACE : task_.in; }

  void gather() {
    const void* const in = is_root() ? own_block_or_in(all_out()) : task_.in;
    must(MPI_Gather(in, count(), type_, task_.out, count(), type_, task_.root, comm_));
  }

  void gather_v() {
    const IntBlocks blocks(task_.recv_counts);
    const void* const in = is_root() ? own_block_or_in(all_out()) : task_.in;
    must(MPI_Gatherv(in, count(), type_, task_.out, blocks.counts.data(), blocks.begins.data(),
                     type_, task_.root, comm_));
  }

  void all_gather_v() {
    const IntBlocks blocks(task_.recv_counts);
    must(MPI_Allgatherv(own_block_or_in(all_out()), count(), type_, task_.out, blocks.counts.data(),
                        blocks.begins.data(), type_, comm_));
  }

  /// In place at the root: its own block is not moved.
  void* scatter_out() const {
    return is_root() && task_.out == all_in() ? MPI_IN_PLACE : task_.out;
  }

  void scatter() {
    must(MPI_Scatter(task_.in, count(), type_, scatter_out(), count(), type_, task_.root, comm_));
  }

  void scatter_v() {
    const IntBlocks blocks(task_.send_counts);
    must(MPI_Scatterv(task_.in, blocks.counts.data(), blocks.begins.data(), type_, scatter_out(),
                      count(), type_, task_.root, comm_));
  }

  /// Copies in place: MPI_IN_PLACE would put the result at the beginning of all blocks.
  void reduce_scatter() {
    const bool in_place = task_.out == all_in();
    std::vector<char> copy(in_place ? task_.count * width_ : 0);
    void* const out = in_place ? copy.data() : task_.out;
    if (task_.operation == Operation::reduce_scatter) {
      must(MPI_Reduce_scatter_block(task_.in, out, count(), type_, op_, comm_));
    } else {
      const IntBlocks blocks(task_.send_counts);
      must(MPI_Reduce_scatter(task_.in, out, blocks.counts.data(), type_, op_, comm_));
    }
    if (!copy.empty()) std::memcpy(task_.out, copy.data(), copy.size());
  }

  /// Copies in place: MPI_IN_PLACE would have to be used by all ranks or none.
  void all_to_all() {
    const char* in = static_cast<const char*>(task_.in);
    std::vector<char> copy;
    if (in == task_.out) {
      std::size_t elements = 0;
      for (const std::size_t block : task_.send_counts) elements += block;
      if (task_.send_counts.empty()) elements = task_.count * ranks();
      copy.assign(in, in + elements * width_);
      in = copy.data();
    }
    if (task_.operation == Operation::all_to_all) {
      must(MPI_Alltoall(in, count(), type_, task_.out, count(), type_, comm_));
      return;
    }
    const IntBlocks sends(task_.send_counts);
    const IntBlocks receives(task_.recv_counts);
    must(MPI_Alltoallv(in, sends.counts.data(), sends.begins.data(), type_, task_.out,
                       receives.counts.data(), receives.begins.data(), type_, comm_));
  }

  std::size_t ranks() const {
    int size = 0;
    must(MPI_Comm_size(comm_, &size));
    return static_cast<std::size_t>(size);
  }

  const Task& task_;
  MPI_Comm comm_;
  MPI_Datatype type_;
  MPI_Op op_;
  int rank_ = 0;
  std::size_t width_;
};

}  // namespace

void must(int result) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(result, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw std::runtime_error(length > 0 ? text.data() : "error " + std::to_string(result));
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16:
      return MPI_UINT16_T;  // moved, not combined
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::uint8:
    case DataType::boolean:
    case DataType::float8_e4m3:  // moved, not combined
    case DataType::float8_e5m2:
    case DataType::opaque:
      return MPI_UINT8_T;
    case DataType::complex64:
      return MPI_C_FLOAT_COMPLEX;
    case DataType::complex128:
      return MPI_C_DOUBLE_COMPLEX;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::int16:
      return MPI_INT16_T;
    case DataType::uint16:
      return MPI_UINT16_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::uint64:
      break;
  }
  return MPI_UINT64_T;
}

void run_call(const Task& task, MPI_Comm comm) {
  CollectiveCall(task, comm).run();
}

}  // namespace ddp::internal
