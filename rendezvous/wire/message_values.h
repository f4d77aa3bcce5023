// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/layout.h"
#include "rendezvous/node.h"
#include "rendezvous/wire/fields.h"
#include "store/socket_owner.h"

namespace ddprun::rendezvous {

using store::SocketEnds;

// Values that several messages consist of, as JSON and back. Writing cuts values that are too long
// for a message, and reading refuses them. A cut text keeps its end, and a list its beginning;
// places are left out altogether. The `Fields` that a function gets remembers wrong fields. Pure.

/// The end of a text, which says more than its beginning: at most kMaxText bytes, from the first
/// whole character on.
std::string tail(const std::string& text);

nlohmann::json json_of(const Failure& failure);
Failure failure_in(Fields& outer, const char* name);

nlohmann::json json_of(const WorkerExits& worker_exits);
WorkerExits worker_exits_in(Fields& outer, const char* name);

nlohmann::json json_of(const NodeProgress& progress);
NodeProgress node_progress_in(Fields& outer, const char* name);

nlohmann::json json_of(const SocketEnds& ends);
SocketEnds socket_ends(Fields fields, Fields& outer);

// The next functions write and read the fields of a whole message, without its type.

nlohmann::json json_of(const JoinRequest& request);
JoinRequest join_request_in(Fields& fields);

nlohmann::json json_of(const Layout& layout);
Layout layout_in(Fields& fields);

nlohmann::json json_of(const Ending& ending);
Ending ending_in(Fields& fields);

}  // namespace ddprun::rendezvous
