// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/checkpoint.h"
#include "ddp/ddp.h"
#include "ddp/error.h"
#include "ddp/process_group.h"
#include "ddp/store.h"
#include "ddp/types.h"
#include "ddp/work.h"

struct ddp_group {
  ddp::ProcessGroup group;
  int first_rank;  ///< in the first group, by which messages name ranks
};
struct ddp_work {
  ddp::Work work;
  int first_rank;
};
struct ddp_store {
  std::shared_ptr<ddp::Store> store;
};
struct ddp_memory {
  std::shared_ptr<void> memory;
};
struct ddp_checkpoint {
  ddp::Checkpoint checkpoint;
};

namespace ddp::c {

/// The rank in errors of calls that no group makes.
constexpr int kNoRank = -1;

/// Makes an error of the exception that is being handled.
ddp_error* current_error(int rank);

/// Throws the error, if it is one, and frees it.
void throw_error(ddp_error* error);

/// Throws an error of kind usage.
[[noreturn]] void refuse(const std::string& what);

/// Returns what `function` throws. No exception leaves it.
template <class F>
ddp_error* guarded(int rank, F function) {
  try {
    function();
    return nullptr;
  } catch (...) {
    return current_error(rank);
  }
}

/// Returns the rank of a handle in errors; that of NULL is refused later.
template <class Handle>
int rank_of(const Handle* handle) {
  return handle == nullptr ? kNoRank : handle->first_rank;
}

/// Refuses NULL as an argument that the call needs.
template <class T>
T& need(T* argument, const char* name) {
  if (argument == nullptr) refuse(std::string(name) + " is NULL");
  return *argument;
}

inline std::string_view view_of(const ddp_bytes* bytes, const char* name) {
  return {static_cast<const char*>(need(bytes, name).data), bytes->size};
}

/// Makes a list of byte strings in one block of memory.
ddp_list* make_list(std::span<const std::string> strings);
inline ddp_list* make_list(const std::string& string) {
  return make_list(std::span(&string, 1));
}

std::vector<std::string> strings_of(const ddp_list* list, const char* name);

/// The elements of a buffer of C; none of NULL.
Buffer buffer_of(const ddp_buffer* buffer);
std::vector<Buffer> buffers_of(const ddp_buffer* buffers, std::size_t count);

/// Makes a handle with designated values: new_handle<ddp_work>(work, rank).
template <class Handle, class... Values>
Handle* new_handle(Values&&... values) {
  return new Handle{std::forward<Values>(values)...};
}

}  // namespace ddp::c
