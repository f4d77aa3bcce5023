// SPDX-License-Identifier: Apache-2.0
#include "python/api.h"

#include <cstddef>
#include <cstring>

namespace ddp::python {
namespace {

PyObject* error_class = nullptr;  // ddp.Error

}  // namespace

void fail(PyObject* type, const char* text) {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(type, text);
}

PyObject* raise(ddp_error* error) {
  Ref lost(PyTuple_New(static_cast<Py_ssize_t>(error->lost_count)));
  for (std::size_t i = 0; lost && i < error->lost_count; ++i) {
    PyTuple_SetItem(lost.get(), static_cast<Py_ssize_t>(i), PyLong_FromLong(error->lost_ranks[i]));
  }
  const Ref text(PyUnicode_DecodeUTF8(
      error->text, static_cast<Py_ssize_t>(std::strlen(error->text)), "replace"));
  const Ref exception(PyObject_CallFunction(
      error_class, "OiiO", text.get(), static_cast<int>(error->kind), error->rank, lost.get()));
  ddp_error_free(error);
  if (exception) PyErr_SetObject(error_class, exception.get());
  return nullptr;
}

PyObject* set_error(PyObject*, PyObject* type) {
  Py_INCREF(type);
  error_class = type;
  Py_RETURN_NONE;
}

}  // namespace ddp::python
