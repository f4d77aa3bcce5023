// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ddp/error.h"
#include "ddp/types.h"

namespace ddp {

/// DLTensor of dlpack.h, of any release (https://dmlc.github.io/dlpack): tensors of other
/// libraries. This header has no copy of dlpack.h; a program that uses it includes both.
template <class T>
concept DlpackTensor = requires(const T& tensor) {
  { tensor.data } -> std::convertible_to<const void*>;
  { *tensor.shape } -> std::convertible_to<std::int64_t>;
  { *tensor.strides } -> std::convertible_to<std::int64_t>;
  { tensor.dtype.bits } -> std::convertible_to<int>;
  { tensor.dtype.lanes } -> std::convertible_to<int>;
  tensor.dtype.code;
  tensor.device.device_type;
  tensor.ndim;
  tensor.byte_offset;
};

namespace internal {

/// The numbers of dlpack.h, which never change.
enum class DlpackDevice { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct DlpackType {
  int code;
  int bits;
  DataType type;
};
inline constexpr DlpackType kDlpackTypes[] = {
    {0, 8, DataType::int8},         {0, 16, DataType::int16},       {0, 32, DataType::int32},
    {0, 64, DataType::int64},       {1, 8, DataType::uint8},        {1, 16, DataType::uint16},
    {1, 32, DataType::uint32},      {1, 64, DataType::uint64},      {2, 16, DataType::float16},
    {2, 32, DataType::float32},     {2, 64, DataType::float64},     {4, 16, DataType::bfloat16},
    {5, 64, DataType::complex64},   {5, 128, DataType::complex128}, {6, 8, DataType::boolean},
    {10, 8, DataType::float8_e4m3}, {12, 8, DataType::float8_e5m2}};

[[noreturn]] inline void refuse_dlpack(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: a DLPack tensor " + what);
}

template <DlpackTensor T>
DataType dlpack_type(const T& tensor) {
  const auto code = static_cast<int>(tensor.dtype.code);
  for (const DlpackType& each : kDlpackTypes) {
    if (each.code == code && each.bits == tensor.dtype.bits && tensor.dtype.lanes == 1) {
      return each.type;
    }
  }
  refuse_dlpack("of type code " + std::to_string(code) + ", " + std::to_string(tensor.dtype.bits) +
                " bits, " + std::to_string(tensor.dtype.lanes) + " lanes: ddp has no such type");
}

/// The number of elements.
template <DlpackTensor T>
std::size_t dlpack_count(const T& tensor) {
  std::size_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
  return count;
}

/// Refuses elements that do not lie side by side, unless there are none.
template <DlpackTensor T>
void check_dlpack_strides(const T& tensor) {
  if (tensor.strides == nullptr || dlpack_count(tensor) == 0) return;
  std::int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
      refuse_dlpack("is not contiguous: dimension " + std::to_string(i) + " has stride " +
                    std::to_string(tensor.strides[i]) + ", not " + std::to_string(expected));
    }
    expected *= tensor.shape[i];
  }
}

template <DlpackTensor T>
bool is_dlpack_on_device(const T& tensor) {
  const auto type = static_cast<int>(tensor.device.device_type);
  switch (static_cast<DlpackDevice>(type)) {
    case DlpackDevice::cpu:
    case DlpackDevice::cuda_host:
      return false;
    case DlpackDevice::cuda:
    case DlpackDevice::cuda_managed:
      return true;
  }
  refuse_dlpack("on a device of type " + std::to_string(type) +
                ": ddp takes those of CPU and CUDA");
}

/// The memory behind a managed tensor of to_dlpack().
template <class Managed>
struct DlpackVector {
  Managed managed;
  std::int64_t count;
  std::int64_t stride = 1;
};

inline const DlpackType& find_dlpack_type(DataType type) {
  for (const DlpackType& each : kDlpackTypes) {
    if (each.type == type) return each;
  }
  refuse_dlpack("of structs: DLPack has no type for them");
}

}  // namespace internal

/// Returns the elements of a tensor, whose owner must keep them until the call is done. On a CUDA
/// device they belong to the work of `stream`, as those of a DeviceSpan do. Errors: usage (ddp has
/// no such type, the elements do not lie side by side in the order of C, or they are neither on a
/// CPU nor on a CUDA device).
template <DlpackTensor T>
Buffer view(const T& tensor, CUstream_st* stream = nullptr) {
  const DataType type = internal::dlpack_type(tensor);
  internal::check_dlpack_strides(tensor);
  void* const data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  const std::size_t count = internal::dlpack_count(tensor);
  if (internal::is_dlpack_on_device(tensor)) return {data, count, type, stream};
  return {data, count, type};
}

/// Makes a tensor of one dimension for other libraries: ddp::to_dlpack<DLManagedTensor>(buffer), or
/// with DLManagedTensorVersioned. The receiver calls its deleter, which frees the tensor. The
/// elements stay the caller's, and must outlive it. `device` is the number of the GPU of a buffer
/// on a device. Errors: usage (structs).
template <class Managed>
Managed* to_dlpack(const Buffer& buffer, int device = 0) {
  using Vector = internal::DlpackVector<Managed>;
  const internal::DlpackType& type = internal::find_dlpack_type(buffer.type);
  std::unique_ptr<Vector> owner(new Vector{{}, static_cast<std::int64_t>(buffer.count)});
  Managed& managed = owner->managed;
  if constexpr (requires { managed.version.major; }) managed.version = {1, 1};
  managed.manager_ctx = owner.get();
  managed.deleter = [](Managed* self) { delete static_cast<Vector*>(self->manager_ctx); };
  auto& tensor = managed.dl_tensor;
  tensor.data = buffer.data;
  tensor.device.device_type = static_cast<decltype(tensor.device.device_type)>(
      buffer.on_device ? internal::DlpackDevice::cuda : internal::DlpackDevice::cpu);
  tensor.device.device_id = buffer.on_device ? device : 0;
  tensor.ndim = 1;
  tensor.dtype.code = static_cast<decltype(tensor.dtype.code)>(type.code);
  tensor.dtype.bits = static_cast<decltype(tensor.dtype.bits)>(type.bits);
  tensor.dtype.lanes = 1;
  tensor.shape = &owner->count;
  tensor.strides = &owner->stride;
  return &owner.release()->managed;
}

}  // namespace ddp
