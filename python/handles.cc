// SPDX-License-Identifier: Apache-2.0
#include "python/handles.h"

namespace ddp::python {
namespace {

/// Calls whose Work is gone before they were done. They keep their elements, also at the
/// interpreter's end.
std::vector<Pending*>& abandoned() {
  static auto* const all = new std::vector<Pending*>;
  return *all;
}

}  // namespace

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

PyObject* new_capsule(Pending* pending) {
  return PyCapsule_New(pending, kName<ddp_work>, [](PyObject* capsule) {
    abandoned().push_back(static_cast<Pending*>(PyCapsule_GetPointer(capsule, kName<ddp_work>)));
    free_completed();
  });
}

}  // namespace ddp::python
