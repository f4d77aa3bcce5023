// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "python/api.h"

namespace ddp::python {

struct ManagedTensor;
struct VersionedTensor;

/// Keeps the elements of one object until a call is done.
class Held {
 public:
  explicit Held(const Py_buffer& view) : view_(view) {}
  explicit Held(ManagedTensor* tensor) : tensor_(tensor) {}
  explicit Held(VersionedTensor* tensor) : versioned_(tensor) {}
  explicit Held(Ref owner) : owner_(std::move(owner)) {}
  Held(Held&& other) noexcept
      : view_(std::exchange(other.view_, {})),
        tensor_(std::exchange(other.tensor_, nullptr)),
        versioned_(std::exchange(other.versioned_, nullptr)),
        owner_(std::move(other.owner_)) {}
  Held& operator=(Held&&) = delete;
  ~Held();

 private:
  Py_buffer view_{};
  ManagedTensor* tensor_ = nullptr;
  VersionedTensor* versioned_ = nullptr;
  Ref owner_;
};

/// The elements of Python's objects that one call uses. After the first failure an exception is
/// set.
class Elements {
 public:
  /// Makes a buffer of an object, or of a ddp.View, which is a tuple of object, type and stream.
  void view(PyObject* object, bool writes, ddp_buffer& buffer);

  /// All that the call uses.
  std::vector<Held> take_held() { return std::move(held_); }

 private:
  bool view_buffer(PyObject* object, bool writes, bool of_bytes, ddp_buffer& buffer);
  void view_tensor(PyObject* object, bool writes, void* stream, ddp_buffer& buffer);
  void view_address(PyObject* tuple, ddp_buffer& buffer);
  template <class Managed>
  Managed* take(PyObject* capsule, const char* name, const char* used);

  /// Elements that were seen before in this call: a call in place passes them twice.
  struct Seen {
    PyObject* object = nullptr;
    ddp_buffer buffer{};
    bool is_writable = false;
  };
  Seen seen_;
  std::vector<Held> held_;
};

}  // namespace ddp::python
