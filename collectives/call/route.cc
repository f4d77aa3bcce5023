// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/route.h"

#include <cstring>

namespace ddp::internal {

Route::Route(const Task& task, int rank, int size)
    : task_(task),
      traits_(traits_of(task.operation)),
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

/// Whether rank `from` sends data to rank `to`; operations that combine have no routes.
bool Route::moves(int from, int to) const {
  const auto takes_part = [&](Holders holders, int rank) {
    return holders == Holders::all || (holders == Holders::root && rank == task_.root);
  };
  return !traits_.reduces && takes_part(traits_.from, from) && takes_part(traits_.to, to);
}

Outgoing Route::to(int other) const {
  if (!moves(rank_, other)) return {};
  return traits_.in_blocks ? in_block(other) : all_of_in();
}

Incoming Route::from(int other) const {
  if (!moves(other, rank_)) return {};
  return traits_.out_blocks ? out_block(other) : all_of_out();
}

void copy_own(const Route& route, int rank) {
  const Outgoing own = route.to(rank);
  const Incoming own_out = route.from(rank);
  if (own.bytes == 0 || own_out.bytes == 0 || own_out.data == own.data) return;
  std::memmove(own_out.data, own.data, own.bytes);
}

}  // namespace ddp::internal
