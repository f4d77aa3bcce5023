// SPDX-License-Identifier: Apache-2.0
#include "python/elements.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ddp::python {

// The tensors of DLPack: a DLTensor of 48 bytes, with its owner behind or before it.
struct Tensor {
  std::array<std::uint64_t, 6> fields;
};
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct VersionedTensor {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

namespace {

constexpr int kWritable = 0x1;                     // PyBUF_WRITABLE
constexpr int kContiguousWithFormat = 0x38 | 0x4;  // PyBUF_C_CONTIGUOUS | PyBUF_FORMAT
constexpr std::uint64_t kReadOnlyTensor = 1;

/// Finds the type of elements by the format of a buffer, as of the module struct.
bool set_type(ddp_buffer& buffer, const char* format, Py_ssize_t size) {
  struct Kind {
    const char* formats;
    std::array<int, 4> types;  // of 1, 2, 4 and 8 bytes
  };
  static constexpr std::array<Kind, 4> kKinds = {{
      {"bhilqn", {DDP_INT8, DDP_INT16, DDP_INT32, DDP_INT64}},
      {"BHILQNc", {DDP_UINT8, DDP_UINT16, DDP_UINT32, DDP_UINT64}},
      {"efd", {-1, DDP_FLOAT16, DDP_FLOAT32, DDP_FLOAT64}},
      {"?", {DDP_BOOL, -1, -1, -1}},
  }};
  if (format == nullptr) format = "B";
  if (std::strchr("@=<|", *format) != nullptr && *format != '\0') ++format;
  if (std::strcmp(format, "Zf") == 0 || std::strcmp(format, "Zd") == 0) {
    buffer.type = format[1] == 'f' ? DDP_COMPLEX64 : DDP_COMPLEX128;
    return true;
  }
  const int power = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
  if (power < 0 || std::strlen(format) != 1) return false;
  for (const Kind& kind : kKinds) {
    if (std::strchr(kind.formats, *format) == nullptr) continue;
    const int type = kind.types[static_cast<std::size_t>(power)];
    if (type >= 0) buffer.type = static_cast<ddp_type>(type);
    return type >= 0;
  }
  return false;
}

/// Sees the elements as others of this type.
void set_view_type(PyObject* type, ddp_buffer& buffer) {
  static constexpr std::array<std::size_t, DDP_OPAQUE> kWidths = {2, 2, 4, 8, 1, 1, 4, 8, 2,
                                                                  2, 4, 8, 1, 1, 1, 8, 16};
  const unsigned long number = PyLong_AsUnsignedLong(type);
  if (number >= kWidths.size()) return fail(PyExc_ValueError, "there is no such type of elements");
  const std::size_t size = buffer.count * kWidths[buffer.type];
  if (size % kWidths[number] != 0) return fail(PyExc_ValueError, "the bytes are no whole elements");
  buffer.type = static_cast<ddp_type>(number);
  buffer.count = size / kWidths[number];
}

/// Calls object.__dlpack__(): with a version first, which shows whether the elements may be
/// written.
Ref call_dlpack(PyObject* object, void* stream) {
  const Ref method(PyObject_GetAttrString(object, "__dlpack__"));
  const Ref none(PyTuple_New(0));
  const Ref words(Py_BuildValue("{sOs(ii)}", "stream", Py_None, "max_version", 1, 0));
  if (!method || !none || !words) return Ref();
  if (stream != nullptr) {
    const Ref address(PyLong_FromVoidPtr(stream));
    PyDict_SetItemString(words.get(), "stream", address.get());
  }
  Ref capsule(PyObject_Call(method.get(), none.get(), words.get()));
  if (capsule || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return capsule;
  PyErr_Clear();
  PyDict_DelItemString(words.get(), "max_version");
  return Ref(PyObject_Call(method.get(), none.get(), words.get()));
}

}  // namespace

Held::~Held() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  if (tensor_ != nullptr && tensor_->deleter != nullptr) tensor_->deleter(tensor_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

/// Makes a buffer of an object of Python's buffer protocol; of its bytes, if a type is given.
/// False: it has none.
bool Elements::view_buffer(PyObject* object, bool writes, bool of_bytes, ddp_buffer& buffer) {
  Py_buffer view{};
  const int flags = kContiguousWithFormat | (writes ? kWritable : 0);
  if (PyObject_GetBuffer(object, &view, flags) != 0) return false;
  held_.emplace_back(view);
  seen_.is_writable = view.readonly == 0;
  if (!set_type(buffer, of_bytes ? "B" : view.format, of_bytes ? 1 : view.itemsize)) {
    PyErr_Format(PyExc_TypeError, "ddp has no type for elements of format '%s': see ddp.view()",
                 view.format);
  }
  buffer.data = view.buf;
  buffer.count = static_cast<std::size_t>(of_bytes ? view.len : view.len / view.itemsize);
  return true;
}

/// Takes the tensor out of its capsule.
template <class Managed>
Managed* Elements::take(PyObject* capsule, const char* name, const char* used) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) return nullptr;
  PyCapsule_SetName(capsule, used);
  held_.emplace_back(managed);
  return managed;
}

/// Makes a buffer of an object of DLPack. The old version does not show whether an array may be
/// written.
void Elements::view_tensor(PyObject* object, bool writes, void* stream, ddp_buffer& buffer) {
  const Ref capsule = call_dlpack(object, stream);
  if (!capsule) return;
  const Tensor* tensor = nullptr;
  bool is_read_only = false;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0) {
    const auto* managed =
        take<VersionedTensor>(capsule.get(), "dltensor_versioned", "used_dltensor_versioned");
    is_read_only = (managed->flags & kReadOnlyTensor) != 0;
    tensor = &managed->tensor;
  } else {
    const auto* managed = take<ManagedTensor>(capsule.get(), "dltensor", "used_dltensor");
    if (managed == nullptr) return;
    is_read_only = PyObject_CheckBuffer(object) != 0;  // it has refused to be written: JAX's
    tensor = &managed->tensor;
  }
  seen_.is_writable = !is_read_only;
  if (writes && is_read_only) {
    return fail(PyExc_BufferError, "the array is read-only: pass another one for the output");
  }
  if (ddp_error* error = ddp_view(tensor, stream, &buffer)) raise(error);
}

/// Makes a buffer of a tuple of address, count, type and the owner of the elements: what a library
/// passes that knows these already.
void Elements::view_address(PyObject* tuple, ddp_buffer& buffer) {
  buffer.data = PyLong_AsVoidPtr(PyTuple_GetItem(tuple, 0));
  buffer.count = PyLong_AsSize_t(PyTuple_GetItem(tuple, 1));
  buffer.type = static_cast<ddp_type>(PyLong_AsLong(PyTuple_GetItem(tuple, 2)));
  if (PyErr_Occurred() != nullptr) return;
  seen_.is_writable = true;
  PyObject* const owner = PyTuple_GetItem(tuple, 3);
  Py_INCREF(owner);
  held_.emplace_back(Ref(owner));
}

void Elements::view(PyObject* object, bool writes, ddp_buffer& buffer) {
  if (object == nullptr) return;
  if (object == seen_.object && (seen_.is_writable || !writes)) {
    buffer = seen_.buffer;
    return;
  }
  seen_ = {.object = object};
  if (PyTuple_Check(object) != 0 && PyTuple_Size(object) == 4) {
    view_address(object, buffer);
    seen_.buffer = buffer;
    return;
  }
  PyObject* type = Py_None;
  void* stream = nullptr;
  if (PyTuple_Check(object) != 0 && PyTuple_Size(object) == 3) {
    type = PyTuple_GetItem(object, 1);
    stream = PyLong_AsVoidPtr(PyTuple_GetItem(object, 2));
    object = PyTuple_GetItem(object, 0);
  }
  if (PyErr_Occurred() != nullptr) return;
  const bool has_type = type != Py_None;
  if (!view_buffer(object, writes, has_type, buffer)) {
    PyObject *kind = nullptr, *refusal = nullptr, *traceback = nullptr;
    PyErr_Fetch(&kind, &refusal, &traceback);  // which PyObject_HasAttrString would clear
    const bool is_tensor = PyObject_HasAttrString(object, "__dlpack__") != 0;
    if (!is_tensor && PyObject_CheckBuffer(object) != 0) {
      return PyErr_Restore(kind, refusal, traceback);
    }
    const std::array<Ref, 3> refused = {Ref(kind), Ref(refusal), Ref(traceback)};
    if (!is_tensor) {
      PyErr_Format(PyExc_TypeError, "%R has neither the buffer protocol nor DLPack",
                   Py_TYPE(object));
      return;
    }
    view_tensor(object, writes, stream, buffer);
  }
  if (has_type && PyErr_Occurred() == nullptr) set_view_type(type, buffer);
  seen_.buffer = buffer;
}

}  // namespace ddp::python
