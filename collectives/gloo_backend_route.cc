// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_route.h"

namespace ddp::internal {

GlooRoute::GlooRoute(const Task& task, int rank, int size)
    : task_(task),
      rank_(rank),
      width_(size_of(task.type)),
      in_(task.send_counts, task.count, size),
      out_(task.recv_counts, task.count, size) {}

GlooTurns::Outgoing GlooRoute::all_of_in() const {
  return {static_cast<const char*>(task_.in), task_.count * width_};
}

GlooTurns::Incoming GlooRoute::all_of_out() const {
  return {static_cast<char*>(task_.out), task_.count * width_};
}

GlooTurns::Outgoing GlooRoute::in_block(int other) const {
  return {static_cast<const char*>(task_.in) + in_.begin(other) * width_,
          in_.count(other) * width_};
}

GlooTurns::Incoming GlooRoute::out_block(int other) const {
  return {static_cast<char*>(task_.out) + out_.begin(other) * width_, out_.count(other) * width_};
}

GlooTurns::Outgoing GlooRoute::to(int other) const {
  switch (task_.operation) {
    case Operation::broadcast:
      return rank_ == task_.root ? all_of_in() : GlooTurns::Outgoing{};
    case Operation::gather:
    case Operation::gather_v:
      return other == task_.root ? all_of_in() : GlooTurns::Outgoing{};
    case Operation::all_gather:
    case Operation::all_gather_v:
      return all_of_in();
    case Operation::scatter:
    case Operation::scatter_v:
      return rank_ == task_.root ? in_block(other) : GlooTurns::Outgoing{};
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return in_block(other);
    default:
      return {};
  }
}

GlooTurns::Incoming GlooRoute::from(int other) const {
  switch (task_.operation) {
    case Operation::broadcast:
    case Operation::scatter:
    case Operation::scatter_v:
      return other == task_.root ? all_of_out() : GlooTurns::Incoming{};
    case Operation::gather:
    case Operation::gather_v:
      return rank_ == task_.root ? out_block(other) : GlooTurns::Incoming{};
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return out_block(other);
    default:
      return {};
  }
}

}  // namespace ddp::internal
