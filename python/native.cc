// SPDX-License-Identifier: Apache-2.0
// ddp._native: the C interface as functions of Python. `bound` converts arguments and results by
// the types of a function's parameters, so a function needs no code of its own. While it runs, the
// GIL is released.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000  // one binary for CPython 3.9 and later
#include <Python.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

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

namespace {

constexpr int kWritable = 0x1;                     // PyBUF_WRITABLE
constexpr int kContiguousWithFormat = 0x38 | 0x4;  // PyBUF_C_CONTIGUOUS | PyBUF_FORMAT

PyObject* error_class = nullptr;  // ddp.Error

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
constexpr std::uint64_t kReadOnlyTensor = 1;

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
  ~Held() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
    if (tensor_ != nullptr && tensor_->deleter != nullptr) tensor_->deleter(tensor_);
    if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
  }

 private:
  Py_buffer view_{};
  ManagedTensor* tensor_ = nullptr;
  VersionedTensor* versioned_ = nullptr;
  Ref owner_;
};

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

/// A call that was begun, with the elements that it uses.
struct Pending {
  ddp_work* work = nullptr;
  std::vector<Held> held;
};

/// Calls whose Work is gone before they were done. They keep their elements, also at the
/// interpreter's end.
std::vector<Pending*>& abandoned() {
  static auto* const all = new std::vector<Pending*>;
  return *all;
}

void free_completed() {
  std::vector<Pending*> completed;  // apart: what frees elements may abandon other calls
  std::erase_if(abandoned(), [&](Pending* pending) {
    if (ddp_work_is_completed(pending->work) == 0) return false;
    completed.push_back(pending);
    return true;
  });
  for (Pending* pending : completed) {
    ddp_work_free(pending->work);
    delete pending;
  }
}

// Handles are capsules of Python. That of a ddp_work has the Pending.
template <class T>
constexpr const char* kName = nullptr;
template <class T>
constexpr auto kFree = nullptr;
template <>
constexpr const char* kName<ddp_group> = "ddp.ProcessGroup";
template <>
constexpr auto kFree<ddp_group> = ddp_group_free;
template <>
constexpr const char* kName<ddp_store> = "ddp.Store";
template <>
constexpr auto kFree<ddp_store> = ddp_store_free;
template <>
constexpr const char* kName<ddp_memory> = "ddp.Memory";
template <>
constexpr auto kFree<ddp_memory> = ddp_memory_free;
template <>
constexpr const char* kName<ddp_checkpoint> = "ddp.Checkpoint";
template <>
constexpr auto kFree<ddp_checkpoint> = ddp_checkpoint_free;
template <>
constexpr const char* kName<ddp_work> = "ddp.Work";

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

PyObject* new_capsule(Pending* pending) {
  return PyCapsule_New(pending, kName<ddp_work>, [](PyObject* capsule) {
    abandoned().push_back(static_cast<Pending*>(PyCapsule_GetPointer(capsule, kName<ddp_work>)));
    free_completed();
  });
}

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

  /// Sets the exception, if none is set.
  void fail(PyObject* type, const char* text) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(type, text);
  }

  /// Whether all were converted.
  bool are_good() {
    if (PyErr_Occurred() == nullptr && at_ == count_) return true;
    fail(PyExc_TypeError, "too many arguments");
    return false;
  }

  /// Elements that were seen before in this call: a call in place passes them twice.
  struct Seen {
    PyObject* object = nullptr;
    ddp_buffer buffer{};
    bool is_writable = false;
  };
  Seen seen;

  const bool takes_list;  ///< elements may be a list, as the call also takes their number

  void hold(Held held) { held_.push_back(std::move(held)); }
  std::vector<Held> take_held() { return std::move(held_); }

 private:
  PyObject* tuple_;
  Py_ssize_t count_;
  Py_ssize_t at_ = 0;
  std::vector<Held> held_;
};

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
void set_view_type(Arguments& arguments, PyObject* type, ddp_buffer& buffer) {
  static constexpr std::array<std::size_t, DDP_OPAQUE> kWidths = {2, 2, 4, 8, 1, 1, 4, 8, 2,
                                                                  2, 4, 8, 1, 1, 1, 8, 16};
  const unsigned long number = PyLong_AsUnsignedLong(type);
  if (number >= kWidths.size())
    return arguments.fail(PyExc_ValueError, "there is no such type of elements");
  const std::size_t size = buffer.count * kWidths[buffer.type];
  if (size % kWidths[number] != 0)
    return arguments.fail(PyExc_ValueError, "the bytes are no whole elements");
  buffer.type = static_cast<ddp_type>(number);
  buffer.count = size / kWidths[number];
}

/// Makes a buffer of an object of Python's buffer protocol; of its bytes, if a type is given.
/// False: it has none.
bool view_buffer(Arguments& arguments, PyObject* object, bool writes, bool of_bytes,
                 ddp_buffer& buffer) {
  Py_buffer view{};
  const int flags = kContiguousWithFormat | (writes ? kWritable : 0);
  if (PyObject_GetBuffer(object, &view, flags) != 0) return false;
  arguments.hold(Held(view));
  arguments.seen.is_writable = view.readonly == 0;
  if (!set_type(buffer, of_bytes ? "B" : view.format, of_bytes ? 1 : view.itemsize)) {
    PyErr_Format(PyExc_TypeError, "ddp has no type for elements of format '%s': see ddp.view()",
                 view.format);
  }
  buffer.data = view.buf;
  buffer.count = static_cast<std::size_t>(of_bytes ? view.len : view.len / view.itemsize);
  return true;
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

/// Takes the tensor out of its capsule.
template <class Managed>
Managed* take(Arguments& arguments, PyObject* capsule, const char* name, const char* used) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) return nullptr;
  PyCapsule_SetName(capsule, used);
  arguments.hold(Held(managed));
  return managed;
}

/// Makes a buffer of an object of DLPack. The old version does not show whether an array may be
/// written.
void view_tensor(Arguments& arguments, PyObject* object, bool writes, void* stream,
                 ddp_buffer& buffer) {
  const Ref capsule = call_dlpack(object, stream);
  if (!capsule) return;
  const Tensor* tensor = nullptr;
  bool is_read_only = false;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0) {
    const auto* managed = take<VersionedTensor>(arguments, capsule.get(), "dltensor_versioned",
                                                "used_dltensor_versioned");
    is_read_only = (managed->flags & kReadOnlyTensor) != 0;
    tensor = &managed->tensor;
  } else {
    const auto* managed =
        take<ManagedTensor>(arguments, capsule.get(), "dltensor", "used_dltensor");
    if (managed == nullptr) return;
    is_read_only = PyObject_CheckBuffer(object) != 0;  // it has refused to be written: JAX's
    tensor = &managed->tensor;
  }
  arguments.seen.is_writable = !is_read_only;
  if (writes && is_read_only) {
    return arguments.fail(PyExc_BufferError,
                          "the array is read-only: pass another one for the output");
  }
  if (ddp_error* error = ddp_view(tensor, stream, &buffer)) raise(error);
}

/// Makes a buffer of a tuple of address, count, type and the owner of the elements: what a library
/// passes that knows these already.
void view_address(Arguments& arguments, PyObject* tuple, ddp_buffer& buffer) {
  buffer.data = PyLong_AsVoidPtr(PyTuple_GetItem(tuple, 0));
  buffer.count = PyLong_AsSize_t(PyTuple_GetItem(tuple, 1));
  buffer.type = static_cast<ddp_type>(PyLong_AsLong(PyTuple_GetItem(tuple, 2)));
  if (PyErr_Occurred() != nullptr) return;
  arguments.seen.is_writable = true;
  PyObject* const owner = PyTuple_GetItem(tuple, 3);
  Py_INCREF(owner);
  arguments.hold(Held(Ref(owner)));
}

/// Makes a buffer of an object, or of a ddp.View, which is a tuple of object, type and stream.
void view_elements(Arguments& arguments, PyObject* object, bool writes, ddp_buffer& buffer) {
  if (object == nullptr) return;
  if (object == arguments.seen.object && (arguments.seen.is_writable || !writes)) {
    buffer = arguments.seen.buffer;
    return;
  }
  arguments.seen = {.object = object};
  if (PyTuple_Check(object) != 0 && PyTuple_Size(object) == 4) {
    view_address(arguments, object, buffer);
    arguments.seen.buffer = buffer;
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
  if (!view_buffer(arguments, object, writes, has_type, buffer)) {
    PyObject *kind = nullptr, *refusal = nullptr, *traceback = nullptr;
    PyErr_Fetch(&kind, &refusal, &traceback);  // which PyObject_HasAttrString would clear
    if (PyObject_HasAttrString(object, "__dlpack__") == 0) {
      return PyErr_Restore(kind, refusal, traceback);
    }
    const std::array<Ref, 3> refused = {Ref(kind), Ref(refusal), Ref(traceback)};
    view_tensor(arguments, object, writes, stream, buffer);
  }
  if (has_type && PyErr_Occurred() == nullptr) set_view_type(arguments, type, buffer);
  arguments.seen.buffer = buffer;
}

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
      if (!std::in_range<Number>(wide_))
        arguments.fail(PyExc_OverflowError, "a number is too large");
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
      if (!std::in_range<T>(number)) arguments.fail(PyExc_OverflowError, "a number is too large");
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

bool set_bytes(PyObject* object, ddp_bytes& bytes) {
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
    return new_capsule(new Pending{.work = work_, .held = arguments.take_held()});
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
      view_elements(arguments, object, !std::is_const_v<T>, one_);
      return;
    }
    const Ref items(PyList_AsTuple(object));  // an item's own code may change the list
    is_list_ = true;
    for (Py_ssize_t i = 0; PyErr_Occurred() == nullptr && i < PyTuple_Size(items.get()); ++i) {
      view_elements(arguments, PyTuple_GetItem(items.get(), i), !std::is_const_v<T>,
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
      view_elements(arguments, elements, message.sends == 0, message.buffer);
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

/// Runs `f` without the GIL.
template <class F>
auto without_gil(F f) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = f();
  PyEval_RestoreThread(state);
  return result;
}

PyObject* to_python(const char* text) {
  return PyUnicode_FromString(text);
}
template <class T>
  requires std::is_integral_v<T>
PyObject* to_python(T number) {
  return PyLong_FromLongLong(static_cast<long long>(number));
}

/// None, one result, or a tuple of several.
PyObject* joined(std::vector<Ref> results) {
  if (results.empty()) Py_RETURN_NONE;
  for (const Ref& each : results) {
    if (!each) return nullptr;
  }
  if (results.size() == 1) return results[0].release();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (std::size_t i = 0; tuple && i < results.size(); ++i) {
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), results[i].release());
  }
  return tuple.release();
}

template <class P>
void add_result(std::vector<Ref>& results, P& parameter, Arguments& arguments) {
  if constexpr (requires { parameter.result(arguments); })
    results.emplace_back(parameter.result(arguments));
}

template <class R, class... T>
PyObject* call(R (*function)(T...), PyObject* tuple) {
  Arguments arguments(tuple, (std::is_same_v<T, std::size_t> || ...));
  std::tuple<Parameter<T>...> parameters{Parameter<T>(arguments)...};  // in this order
  if (!arguments.are_good()) return nullptr;
  return std::apply(
      [&](auto&... each) -> PyObject* {
        if constexpr (std::is_void_v<R>) {
          function(each.value()...);
          Py_RETURN_NONE;
        } else {
          const R result = without_gil([&] { return function(each.value()...); });
          if constexpr (!std::is_same_v<R, ddp_error*>) {
            return to_python(result);
          } else {
            if (result != nullptr) return raise(result);
            std::vector<Ref> results;
            (add_result(results, each, arguments), ...);
            return joined(std::move(results));
          }
        }
      },
      parameters);
}

template <auto function>
PyObject* bound(PyObject*, PyObject* arguments) {
  return call(function, arguments);
}

/// mesh(group, names, sizes): a group for each dimension.
PyObject* mesh(PyObject*, PyObject* tuple) {
  Arguments arguments(tuple);
  Parameter<ddp_group*> group(arguments);
  PyObject* const list = arguments.next();
  Parameter<const int*> sizes(arguments);
  if (!arguments.are_good()) return nullptr;
  const Py_ssize_t count = PyList_Size(list);
  std::vector<Ref> texts;
  std::vector<const char*> names;
  for (Py_ssize_t i = 0; i < count; ++i) {
    texts.emplace_back(PyUnicode_AsUTF8String(PyList_GetItem(list, i)));
    if (!texts.back()) return nullptr;
    names.push_back(PyBytes_AsString(texts.back().get()));
  }
  std::vector<ddp_group*> groups(names.size());
  ddp_error* const error = without_gil([&] {
    return ddp_mesh(group.value(), names.data(), sizes.value(), names.size(), groups.data());
  });
  if (error != nullptr) return raise(error);
  Ref result(PyList_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyList_SetItem(result.get(), i, new_capsule(groups[static_cast<std::size_t>(i)]));
  }
  return result.release();
}

/// group_abandon(group): its capsule is empty then.
PyObject* group_abandon(PyObject*, PyObject* capsule) {
  ddp_group* const group = handle_of<ddp_group>(capsule);
  if (group == nullptr) return nullptr;
  PyCapsule_SetDestructor(capsule, nullptr);
  PyCapsule_SetName(capsule, "ddp.abandoned");
  ddp_group_abandon(group);
  Py_RETURN_NONE;
}

PyObject* set_error(PyObject*, PyObject* type) {
  Py_INCREF(type);
  error_class = type;
  Py_RETURN_NONE;
}

#define BOUND(name) {#name, bound<ddp_##name>, METH_VARARGS, nullptr}
PyMethodDef methods[] = {{"set_error", set_error, METH_O, nullptr},
                         {"group_abandon", group_abandon, METH_O, nullptr},
                         {"mesh", mesh, METH_VARARGS, nullptr},
                         BOUND(c_version),
                         BOUND(init_process_group),
                         BOUND(rank),
                         BOUND(size),
                         BOUND(backend),
                         BOUND(timeout),
                         BOUND(set_timeout),
                         BOUND(new_group),
                         BOUND(split),
                         BOUND(split_by_node),
                         BOUND(shrink),
                         BOUND(abort),
                         BOUND(allocate),
                         BOUND(barrier),
                         BOUND(broadcast),
                         BOUND(reduce),
                         BOUND(all_reduce),
                         BOUND(gather),
                         BOUND(gather_v),
                         BOUND(all_gather),
                         BOUND(all_gather_v),
                         BOUND(scatter),
                         BOUND(scatter_v),
                         BOUND(reduce_scatter),
                         BOUND(reduce_scatter_v),
                         BOUND(all_to_all),
                         BOUND(all_to_all_v),
                         BOUND(send),
                         BOUND(recv),
                         BOUND(probe),
                         BOUND(batch_send_recv),
                         BOUND(broadcast_object),
                         BOUND(gather_object),
                         BOUND(all_gather_object),
                         BOUND(work_is_completed),
                         BOUND(work_error),
                         BOUND(work_wait),
                         BOUND(work_duration),
                         BOUND(tcp_store),
                         BOUND(file_store),
                         BOUND(hash_store),
                         BOUND(prefix_store),
                         BOUND(store_set),
                         BOUND(store_get),
                         BOUND(store_add),
                         BOUND(store_wait),
                         BOUND(store_check),
                         BOUND(store_compare_set),
                         BOUND(store_delete_key),
                         BOUND(store_num_keys),
                         BOUND(store_append),
                         BOUND(store_multi_get),
                         BOUND(store_multi_set),
                         BOUND(store_timeout),
                         BOUND(store_set_timeout),
                         BOUND(store_name),
                         BOUND(store_port),
                         BOUND(sample),
                         BOUND(checkpoint_make),
                         BOUND(checkpoint_save),
                         BOUND(checkpoint_load),
                         BOUND(heartbeat),
                         BOUND(write_trace),
                         BOUND(local_device),
                         {nullptr, nullptr, 0, nullptr}};
#undef BOUND

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "ddp._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier): its name for Python
PyMODINIT_FUNC PyInit__native() {
  return PyModule_Create(&module);
}
