// SPDX-License-Identifier: Apache-2.0
// ddp._native: the C interface as functions of Python. `bound` converts arguments and results by
// the types of a function's parameters, so a function needs no code of its own. While it runs, the
// GIL is released.
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/api.h"
#include "python/handles.h"
#include "python/parameters.h"

namespace ddp::python {
namespace {

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

/// give(box, future): what the list has, which it raises if it is an error. A callback in C, as to
/// an error of a function in Python PyTorch appends the lines that it came from.
PyObject* give(PyObject*, PyObject* arguments) {
  PyObject* const result = PyList_GetItem(PyTuple_GetItem(arguments, 0), 0);
  if (result == nullptr) return nullptr;
  if (PyExceptionInstance_Check(result)) {
    PyException_SetTraceback(result, Py_None);
    PyErr_SetObject(PyExceptionInstance_Class(result), result);
    return nullptr;
  }
  Py_INCREF(result);
  return result;
}

#define BOUND(name) {#name, bound<ddp_##name>, METH_VARARGS, nullptr}
PyMethodDef methods[] = {{"set_error", set_error, METH_O, nullptr},
                         {"group_abandon", group_abandon, METH_O, nullptr},
                         {"give", give, METH_VARARGS, nullptr},
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
}  // namespace ddp::python

// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier): its name for Python
PyMODINIT_FUNC PyInit__native() {
  return PyModule_Create(&ddp::python::module);
}
