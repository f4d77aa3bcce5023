// SPDX-License-Identifier: Apache-2.0
#pragma once

// Python's interface, of all releases from 3.9 on, and the errors of ddp in it.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000  // one binary for CPython 3.9 and later
#include <Python.h>
#include <utility>

#include "ddp/ddp.h"

// The limited API of Python 3.11 has them; all releases before have the same.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of Python
struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
int PyObject_CheckBuffer(PyObject* object);
int PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
void PyBuffer_Release(Py_buffer* view);
// NOLINTEND(readability-identifier-naming)
}

namespace ddp::python {

/// A reference that this object owns.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

/// Sets the exception, if none is set.
void fail(PyObject* type, const char* text);

/// Raises ddp.Error, and frees `error`. Returns nullptr.
PyObject* raise(ddp_error* error);

/// Sets the class ddp.Error.
PyObject* set_error(PyObject* module, PyObject* type);

}  // namespace ddp::python
