// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "python/api.h"
#include "python/elements.h"

// The handles of the C interface as objects of Python.

namespace ddp::python {

/// A call that was begun, with the elements that it uses.
struct Pending {
  ddp_work* work = nullptr;
  std::vector<Held> held;
};

/// Frees the calls that are done of those whose Work is gone.
void free_completed();

// Handles are capsules of Python. That of a ddp_work has the Pending.
template <class T>
constexpr const char* kName = nullptr;
template <class T>
constexpr auto kFree = nullptr;
template <>
inline constexpr const char* kName<ddp_group> = "ddp.ProcessGroup";
template <>
inline constexpr auto kFree<ddp_group> = ddp_group_free;
template <>
inline constexpr const char* kName<ddp_store> = "ddp.Store";
template <>
inline constexpr auto kFree<ddp_store> = ddp_store_free;
template <>
inline constexpr const char* kName<ddp_memory> = "ddp.Memory";
template <>
inline constexpr auto kFree<ddp_memory> = ddp_memory_free;
template <>
inline constexpr const char* kName<ddp_checkpoint> = "ddp.Checkpoint";
template <>
inline constexpr auto kFree<ddp_checkpoint> = ddp_checkpoint_free;
template <>
inline constexpr const char* kName<ddp_work> = "ddp.Work";

template <class T>
concept Handle = kName<T> != nullptr;

/// The handle in a capsule; None stands for a closed object.
template <Handle T>
T* handle_of(PyObject* capsule) {
  if (capsule == Py_None) {
    const std::string text = std::string("ddp: the ") + kName<T> + " is closed";
    raise(ddp_error_make(DDP_USAGE, text.c_str()));
    return nullptr;
  }
  void* const pointer = PyCapsule_GetPointer(capsule, kName<T>);
  if constexpr (std::is_same_v<T, ddp_work>) {
    return pointer == nullptr ? nullptr : static_cast<Pending*>(pointer)->work;
  } else {
    return static_cast<T*>(pointer);
  }
}

template <Handle T>
PyObject* new_capsule(T* handle) {
  if (handle == nullptr) Py_RETURN_NONE;
  return PyCapsule_New(handle, kName<T>,
                       [](PyObject* capsule) { kFree<T>(handle_of<T>(capsule)); });
}

PyObject* new_capsule(Pending* pending);

}  // namespace ddp::python
