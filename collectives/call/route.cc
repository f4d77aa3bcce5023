// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/route.h"

#include <cstring>

namespace ddp::internal {

Route::Route(const Task& task, int rank, int size)
    : task_(task),
      rank_(rank),
      width_(size_of(task.type)),
      in_(task.send_counts, task.count, size),
      out_(task.recv_counts, task.count, size) {}

Outgoing Route::all_of_in() const {
  return {static_cast<const char*>(task_.in), task_.count * width_};
}

Incoming Route::all_of_out() const {
  return {static_cast<char*>(task_.out), task_.count * width_};
}

Outgoing Route::in_block(int other) const {
  return {static_cast<const char*>(task_.in) + in_.begin(other) * width_,
          in_.count(other) * width_};
}

Incoming Route::out_block(int other) const {
  return {static_cast<char*>(task_.out) + out_.begin(other) * width_, out_.count(other) * width_};
}

Outgoing Route::to(int other) const {
  switch (task_.operation) {
    case Operation::broadcast:
      return rank_ == task_.root ? all_of_in() : Outgoing{};
    case Operation::gather:
    case Operation::gather_v:
      return other == task_.root ? all_of_in() : Outgoing{};
    case Operation::all_gather:
    case Operation::all_gather_v:
      return all_of_in();
    case Operation::scatter:
    case Operation::scatter_v:
      return rank_ == task_.root ? in_block(other) : Outgoing{};
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return in_block(other);
    default:
      return {};
  }
}

Incoming Route::from(int other) const {
  switch (task_.operation) {
    case Operation::broadcast:
    case Operation::scatter:
    case Operation::scatter_v:
      return other == task_.root ? all_of_out() : Incoming{};
    case Operation::gather:
    case Operation::gather_v:
      return rank_ == task_.root ? out_block(other) : Incoming{};
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return out_block(other);
    default:
      return {};
  }
}

void copy_own(const Route& route, int rank) {
  const Outgoing own = route.to(rank);
  const Incoming own_out = route.from(rank);
  if (own.bytes == 0 || own_out.bytes == 0 || own_out.data == own.data) return;
  std::memmove(own_out.data, own.data, own.bytes);
}

}  // namespace ddp::internal
