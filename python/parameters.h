// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/api.h"
#include "python/elements.h"
#include "python/handles.h"

// Arguments of Python, converted by the types of the parameters of a function of C.

namespace ddp::python {

/// The arguments of one call, in turn, and the elements that they hold. After the first failure an
/// exception is set.
class Arguments {
 public:
  explicit Arguments(PyObject* tuple, bool with_count = false)
      : takes_list(with_count), tuple_(tuple), count_(PyTuple_Size(tuple)) {}
  ~Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// The next argument; None instead of one that is missing.
  PyObject* next() {
    if (at_ < count_) return PyTuple_GetItem(tuple_, at_++);
    fail(PyExc_TypeError, "an argument is missing");
    return Py_None;
  }

  /// Whether all were converted.
  bool are_good() {
    if (PyErr_Occurred() == nullptr && at_ == count_) return true;
    fail(PyExc_TypeError, "too many arguments");
    return false;
  }

  const bool takes_list;  ///< elements may be a list, as the call also takes their number

  Elements elements;

 private:
  PyObject* tuple_;
  Py_ssize_t count_;
  Py_ssize_t at_ = 0;
};

/// Converts one argument for a parameter of type T. result() converts what the call stores there.
template <class T>
class Parameter;

/// Numbers and enumerators.
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
class Parameter<T> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const object = arguments.next();
    if (PyErr_Occurred() != nullptr) return;
    if constexpr (std::is_unsigned_v<T>) {
      wide_ = static_cast<long long>(PyLong_AsUnsignedLongLong(object));
    } else {
      wide_ = PyLong_AsLongLong(object);
    }
    if constexpr (sizeof(T) < sizeof(wide_)) {
      if (!std::in_range<Number>(wide_)) fail(PyExc_OverflowError, "a number is too large");
    }
  }
  T value() const { return static_cast<T>(wide_); }

 private:
  using Number = typename std::conditional_t<std::is_enum_v<T>, std::type_identity<int>,
                                             std::type_identity<T>>::type;
  long long wide_ = 0;
};

/// Numbers that a call stores.
template <class T>
  requires(std::is_integral_v<T> && !std::is_const_v<T>)
class Parameter<T*> {
 public:
  explicit Parameter(Arguments&) {}
  T* value() { return &number_; }
  PyObject* result(Arguments&) const {
    if constexpr (std::is_unsigned_v<T>) return PyLong_FromUnsignedLongLong(number_);
    return PyLong_FromLongLong(static_cast<long long>(number_));
  }

 private:
  T number_{};
};

/// Numbers, as a list; NULL of None.
template <class T>
  requires(std::is_same_v<T, int> || std::is_same_v<T, std::size_t>)
class Parameter<const T*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const list = arguments.next();
    if (PyErr_Occurred() != nullptr || list == Py_None) return;
    const Py_ssize_t count = PyList_Size(list);
    numbers_.reserve(static_cast<std::size_t>(count) + 1);  // an empty list is not NULL
    for (Py_ssize_t i = 0; i < count; ++i) {
      const long long number = PyLong_AsLongLong(PyList_GetItem(list, i));
      if (!std::in_range<T>(number)) fail(PyExc_OverflowError, "a number is too large");
      numbers_.push_back(static_cast<T>(number));
    }
    is_given_ = true;
  }
  const T* value() const { return is_given_ ? numbers_.data() : nullptr; }

 private:
  std::vector<T> numbers_;
  bool is_given_ = false;
};

/// Text; NULL of None.
template <>
class Parameter<const char*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const object = arguments.next();
    if (PyErr_Occurred() != nullptr || object == Py_None) return;
    bytes_ = Ref(PyUnicode_AsUTF8String(object));
    if (bytes_) PyBytes_AsStringAndSize(bytes_.get(), &text_, nullptr);  // refuses zero bytes
  }
  const char* value() const { return text_; }

 private:
  Ref bytes_;
  char* text_ = nullptr;
};

inline bool set_bytes(PyObject* object, ddp_bytes& bytes) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &data, &size) != 0) return false;
  bytes = {.data = data, .size = static_cast<std::size_t>(size)};
  return true;
}

/// Bytes; NULL of None.
template <>
class Parameter<const ddp_bytes*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const object = arguments.next();
    is_given_ = PyErr_Occurred() == nullptr && object != Py_None && set_bytes(object, bytes_);
  }
  const ddp_bytes* value() const { return is_given_ ? &bytes_ : nullptr; }

 private:
  ddp_bytes bytes_{};
  bool is_given_ = false;
};

/// A list of bytes.
template <>
class Parameter<const ddp_list*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const list = arguments.next();
    if (PyErr_Occurred() != nullptr) return;
    kept_ = Ref(PyList_AsTuple(list));
    for (Py_ssize_t i = 0; PyErr_Occurred() == nullptr && i < PyTuple_Size(kept_.get()); ++i)
      set_bytes(PyTuple_GetItem(kept_.get(), i), items_.emplace_back());
  }
  const ddp_list* value() {
    list_ = {.items = items_.data(), .count = items_.size()};
    return &list_;
  }

 private:
  Ref kept_;  // while other threads of Python run, and may change the list
  std::vector<ddp_bytes> items_;
  ddp_list list_{};
};

/// Byte strings that a call stores.
template <>
class Parameter<ddp_list**> {
 public:
  explicit Parameter(Arguments&) {}
  ddp_list** value() { return &list_; }
  PyObject* result(Arguments&) {
    Ref all(PyList_New(static_cast<Py_ssize_t>(list_->count)));
    for (std::size_t i = 0; all && i < list_->count; ++i) {
      const ddp_bytes& item = list_->items[i];
      PyList_SetItem(all.get(), static_cast<Py_ssize_t>(i),
                     PyBytes_FromStringAndSize(static_cast<const char*>(item.data),
                                               static_cast<Py_ssize_t>(item.size)));
    }
    ddp_list_free(list_);
    return all.release();
  }

 private:
  ddp_list* list_ = nullptr;
};

/// A handle.
template <Handle T>
class Parameter<T*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const capsule = arguments.next();
    if (PyErr_Occurred() == nullptr) handle_ = handle_of<T>(capsule);
  }
  T* value() const { return handle_; }

 private:
  T* handle_ = nullptr;
};
template <Handle T>
class Parameter<const T*> : public Parameter<T*> {
 public:
  using Parameter<T*>::Parameter;
};

/// A new handle.
template <Handle T>
class Parameter<T**> {
 public:
  explicit Parameter(Arguments&) {}
  T** value() { return &handle_; }
  PyObject* result(Arguments&) const { return new_capsule(handle_); }

 private:
  T* handle_ = nullptr;
};

/// Whether a call is only begun. Then its Work keeps what the call uses.
template <>
class Parameter<ddp_work**> {
 public:
  explicit Parameter(Arguments& arguments) : begins_(PyObject_IsTrue(arguments.next()) == 1) {}
  ddp_work** value() { return begins_ ? &work_ : nullptr; }
  PyObject* result(Arguments& arguments) const {
    free_completed();
    if (!begins_) Py_RETURN_NONE;
    return new_capsule(new Pending{.work = work_, .held = arguments.elements.take_held()});
  }

 private:
  bool begins_;
  ddp_work* work_ = nullptr;
};

/// Elements: one object, or a list of them if the call takes one; NULL of None. A call writes those
/// that are not const.
template <class T>
  requires std::is_same_v<std::remove_const_t<T>, ddp_buffer>
class Parameter<T*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const object = arguments.next();
    is_given_ = object != Py_None;
    if (PyErr_Occurred() != nullptr || !is_given_) return;
    if (!arguments.takes_list || PyList_Check(object) == 0) {
      arguments.elements.view(object, !std::is_const_v<T>, one_);
      return;
    }
    const Ref items(PyList_AsTuple(object));  // an item's own code may change the list
    is_list_ = true;
    for (Py_ssize_t i = 0; PyErr_Occurred() == nullptr && i < PyTuple_Size(items.get()); ++i) {
      arguments.elements.view(PyTuple_GetItem(items.get(), i), !std::is_const_v<T>,
                              list_.emplace_back());
    }
  }
  T* value() { return is_list_ ? list_.data() : is_given_ ? &one_ : nullptr; }

 private:
  ddp_buffer one_{};
  std::vector<ddp_buffer> list_;
  bool is_given_ = false;
  bool is_list_ = false;
};

/// Messages: a list of tuples (whether it sends, elements, the other rank, tag).
template <>
class Parameter<const ddp_message*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* const list = arguments.next();
    if (PyErr_Occurred() != nullptr) return;
    const Ref items(PyList_AsTuple(list));
    const Py_ssize_t count = PyErr_Occurred() == nullptr ? PyTuple_Size(items.get()) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      ddp_message& message = messages_.emplace_back();
      PyObject* elements = nullptr;
      if (PyArg_ParseTuple(PyTuple_GetItem(items.get(), i), "pOii", &message.sends, &elements,
                           &message.peer, &message.tag) == 0 ||
          elements == nullptr)
        return;
      arguments.elements.view(elements, message.sends == 0, message.buffer);
      if (PyErr_Occurred() != nullptr) return;
    }
  }
  const ddp_message* value() const { return messages_.data(); }

 private:
  std::vector<ddp_message> messages_;
};

/// A tuple of the fields after `size`, with None for defaults of pointers.
template <>
class Parameter<const ddp_options*> {
 public:
  explicit Parameter(Arguments& arguments) {
    PyObject* store = Py_None;
    PyObject* device = Py_None;
    PyObject* names = Py_None;
    long long timeout = 0;
    if (PyArg_ParseTuple(arguments.next(), "zzOiiLOO", &options_.backend, &options_.init_method,
                         &store, &options_.rank, &options_.world_size, &timeout, &device,
                         &names) == 0)
      return;
    options_.size = sizeof(options_);
    options_.timeout_ms = timeout;
    if (store != Py_None) {
      options_.store = handle_of<ddp_store>(store);
    }
    has_device_ = device != Py_None;
    if (has_device_) device_ = static_cast<int>(PyLong_AsLong(device));
    if (names == Py_None) return;
    for (Py_ssize_t i = 0; i < PyList_Size(names); ++i) {
      names_.push_back(static_cast<int>(PyLong_AsLong(PyList_GetItem(names, i))));
    }
  }
  const ddp_options* value() {
    if (has_device_) options_.device = &device_;
    if (!names_.empty()) options_.names = names_.data();
    return &options_;
  }

 private:
  ddp_options options_{};
  bool has_device_ = false;
  int device_ = 0;
  std::vector<int> names_;
};

/// An address that a call stores.
template <>
class Parameter<void**> {
 public:
  explicit Parameter(Arguments&) {}
  void** value() { return &address_; }
  PyObject* result(Arguments&) const { return PyLong_FromVoidPtr(address_); }

 private:
  void* address_ = nullptr;
};

}  // namespace ddp::python
