// SPDX-License-Identifier: Apache-2.0
// Matrices and tensors of other libraries as buffers, and buffers as tensors.

#include "ddp/views.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif
#if __has_include(<mdspan>)
#include <mdspan>
#endif

#include "ddp/dlpack.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::Buffer;
using ddp::ConstBuffer;
using ddp::DataType;
using ddp::ProcessGroup;

/// The structs of dlpack.h, with its names and layout.
namespace dlpack {

struct DLDevice {
  int device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // namespace dlpack

namespace {

/// Like a std::mdspan of two dimensions, for compilers without it.
struct Grid {
  using value_type = float;
  const float* memory;
  std::array<std::size_t, 2> extents;
  std::array<std::size_t, 2> strides;

  const float* data_handle() const { return memory; }
  std::size_t size() const { return extents[0] * extents[1]; }
  bool is_unique() const { return strides[0] != 0 && strides[1] != 0; }
  bool is_exhaustive() const {
    return (strides[1] == 1 && strides[0] == extents[1]) ||
           (strides[0] == 1 && strides[1] == extents[0]);
  }
};

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  dlpack::DLTensor tensor;

  Tensor(void* data, std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps = {})
      : shape(std::move(sizes)),
        strides(std::move(steps)),
        tensor{data,       {1, 0},       static_cast<std::int32_t>(shape.size()),
               {2, 32, 1}, shape.data(), strides.empty() ? nullptr : strides.data(),
               0} {}
};

float total_of_ranks(int size) {
  const int sum = size * (size - 1) / 2;
  return static_cast<float>(sum);
}

std::string refusal_of(const dlpack::DLTensor& tensor) {
  try {
    (void)ddp::view(tensor);
  } catch (const ddp::Error& error) {
    return error.kind() == ddp::ErrorKind::usage ? error.what() : "another kind";
  }
  return "accepted";
}

bool is_same(const Buffer& a, const Buffer& b) {
  return a.data == b.data && a.count == b.count && a.type == b.type && a.on_device == b.on_device &&
         a.stream == b.stream;
}

}  // namespace

TEST_CASE("a DLPack tensor becomes a buffer, and a buffer a DLPack tensor") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    std::vector<float> data(7, static_cast<float>(group.rank()));
    Tensor six(data.data(), {2, 3});
    six.tensor.byte_offset = sizeof(float);
    group.all_reduce(ddp::view(six.tensor));
    const float sum = total_of_ranks(group.size());
    check(data.front() == static_cast<float>(group.rank()), "before the tensor");
    check(std::vector(data.begin() + 1, data.end()) == std::vector(6, sum), "the sum");
  });
}

TEST_CASE("the buffer of a DLPack tensor has the tensor's type, memory and stream") {
  std::vector<double> memory(24);
  Tensor tensor(memory.data(), {4, 1, 6}, {6, 99, 1});
  CHECK(is_same(ddp::view(tensor.tensor), {memory.data(), 24, DataType::float32}));
  tensor.tensor.device.device_type = 2;
  auto* const stream = reinterpret_cast<CUstream_st*>(memory.data());
  CHECK(is_same(ddp::view(tensor.tensor, stream), {memory.data(), 24, DataType::float32, stream}));
  tensor.tensor.device.device_type = 3;  // host memory for a GPU
  tensor.tensor.dtype = {5, 128, 1};
  CHECK(is_same(ddp::view(tensor.tensor), {memory.data(), 24, DataType::complex128}));
  tensor.tensor.device.device_type = 7;
  CHECK(refusal_of(tensor.tensor) ==
        "ddp: a DLPack tensor on a device of type 7: ddp takes those of CPU and CUDA");
  tensor.tensor.device.device_type = 1;
  tensor.tensor.dtype = {2, 32, 4};
  CHECK(refusal_of(tensor.tensor) ==
        "ddp: a DLPack tensor of type code 2, 32 bits, 4 lanes: ddp has no such type");
  CHECK(ddp::view(Tensor(nullptr, {}).tensor).count == 1);
}

TEST_CASE("a DLPack tensor that is not contiguous is refused, unless it has no elements") {
  std::vector<float> memory(24);
  CHECK(refusal_of(Tensor(memory.data(), {4, 3}, {6, 1}).tensor) ==
        "ddp: a DLPack tensor is not contiguous: dimension 0 has stride 6, not 3");
  CHECK(refusal_of(Tensor(memory.data(), {3, 4}, {1, 3}).tensor) ==
        "ddp: a DLPack tensor is not contiguous: dimension 1 has stride 3, not 1");
  CHECK(refusal_of(Tensor(memory.data(), {4, 0}, {6, 7}).tensor) == "accepted");
}

TEMPLATE_TEST_CASE("a buffer becomes a DLPack tensor that frees itself, but not the elements", "",
                   dlpack::DLManagedTensor, dlpack::DLManagedTensorVersioned) {
  for (int type = 0; type < static_cast<int>(DataType::opaque); ++type) {
    std::array<char, 64> memory{};
    const Buffer buffer(memory.data(), 4, static_cast<DataType>(type));
    TestType* const managed = ddp::to_dlpack<TestType>(buffer);
    CHECK(is_same(ddp::view(managed->dl_tensor), buffer));
    CHECK(managed->dl_tensor.device.device_id == 0);
    managed->deleter(managed);
  }
  const Buffer there(nullptr, 3, DataType::bfloat16, nullptr);
  TestType* const managed = ddp::to_dlpack<TestType>(there, 5);
  CHECK(is_same(ddp::view(managed->dl_tensor), there));
  CHECK(managed->dl_tensor.device.device_id == 5);
  managed->deleter(managed);
  std::vector<std::array<char, 3>> structs(2);
  CHECK_THROWS_AS(ddp::to_dlpack<TestType>(structs), ddp::Error);
}

TEST_CASE("an mdspan is a buffer if its elements lie side by side") {
  const std::vector<float> memory(12, 1);
  const auto rows = ddp::view(Grid{memory.data(), {3, 4}, {4, 1}});
  STATIC_REQUIRE(std::is_same_v<decltype(rows), const ConstBuffer>);
  CHECK(rows.data == memory.data());
  CHECK(rows.count == 12);
  CHECK(ddp::view(Grid{memory.data(), {3, 4}, {1, 3}}).count == 12);
  CHECK_THROWS_AS(ddp::view(Grid{memory.data(), {2, 4}, {6, 1}}), ddp::Error);
  CHECK_THROWS_AS(ddp::view(Grid{memory.data(), {4, 1}, {0, 1}}), ddp::Error);
#if __cpp_lib_mdspan
  std::vector<int> numbers(6);
  const Buffer all = ddp::view(std::mdspan(numbers.data(), 2, 3));
  CHECK(is_same(all, numbers));
#endif
}

#if __has_include(<Eigen/Core>)
TEST_CASE("Eigen matrices are combined in memory order") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    const float sum = total_of_ranks(group.size());
    Eigen::MatrixXf matrix = Eigen::MatrixXf::Constant(5, 3, static_cast<float>(group.rank()));
    group.all_reduce(ddp::view(matrix.middleCols(1, 2)));
    check((matrix.rightCols(2).array() == sum).all(), "two columns");
    check((matrix.col(0).array() == static_cast<float>(group.rank())).all(), "the first column");
    Eigen::VectorXd vector = Eigen::VectorXd::Constant(4, 1);
    group.all_reduce(ddp::view(vector));
    check((vector.array() == group.size()).all(), "a vector");
    const Eigen::Matrix2i own = Eigen::Matrix2i::Constant(group.rank());
    std::vector<int> all(4 * static_cast<std::size_t>(group.size()));
    group.all_gather(ddp::view(own), all);
    for (std::size_t i = 0; i < all.size(); ++i) check(all[i] == static_cast<int>(i / 4), "all");
  });
}

TEST_CASE("a part of an Eigen matrix is a buffer if its elements lie side by side") {
  Eigen::MatrixXcf matrix(4, 3);
  const Buffer whole = ddp::view(matrix);
  CHECK(is_same(whole, {matrix.data(), 12, DataType::complex64}));
  CHECK(is_same(ddp::view(matrix.col(1)), {matrix.data() + 4, 4, DataType::complex64}));
  CHECK(ddp::view(matrix.col(2).segment(1, 2)).count == 2);
  CHECK(ddp::view(matrix.block(0, 1, 4, 2)).count == 8);
  CHECK(ddp::view(matrix.block(1, 1, 0, 2)).count == 0);
  CHECK(ddp::view(matrix.block(1, 2, 1, 1)).count == 1);
  CHECK_THROWS_AS(ddp::view(matrix.row(0)), ddp::Error);
  CHECK_THROWS_AS(ddp::view(matrix.block(0, 0, 2, 2)), ddp::Error);
  Eigen::Matrix<int, 2, 3, Eigen::RowMajor> rows;
  CHECK(is_same(ddp::view(rows.row(1)), {rows.data() + 3, 3, DataType::int32}));
  STATIC_REQUIRE(std::is_same_v<decltype(ddp::view(std::as_const(matrix))), ConstBuffer>);
}
#endif
