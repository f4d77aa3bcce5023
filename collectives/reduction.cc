// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction.h"

namespace ddp::internal {
namespace {

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <class T, class Combine>
void combine(void* out, const void* a, const void* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<T*>(out)[i] = Combine()(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]);
  }
}

template <class T>
Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return &combine<T, Min>;
    case ReduceOp::max:
      return &combine<T, Max>;
    case ReduceOp::sum:
    case ReduceOp::mean:
      return &combine<T, Sum>;
  }
  return nullptr;
}

template <class T>
void divide_elements(Buffer buffer, int by) {
  T* elements = static_cast<T*>(buffer.data);
  for (std::size_t i = 0; i < buffer.count; ++i) elements[i] /= static_cast<T>(by);
}

}  // namespace

Reduction reduction(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::float32:
      return reduction_of<float>(op);
    case DataType::float64:
      return reduction_of<double>(op);
    case DataType::int32:
      return reduction_of<std::int32_t>(op);
    case DataType::int64:
      return reduction_of<std::int64_t>(op);
  }
  return nullptr;
}

void divide(Buffer buffer, int by) {
  switch (buffer.type) {
    case DataType::float32:
      return divide_elements<float>(buffer, by);
    case DataType::float64:
      return divide_elements<double>(buffer, by);
    case DataType::int32:
      return divide_elements<std::int32_t>(buffer, by);
    case DataType::int64:
      return divide_elements<std::int64_t>(buffer, by);
  }
}

}  // namespace ddp::internal
