// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

// The places at which the ddpruns of a user on this host are reached: each has a socket
// FOLDER/<job>.<pid>.sock to be asked, and one for the heartbeats of its workers. A folder is
// $XDG_RUNTIME_DIR/ddprun, or else ddprun-<uid> in /tmp or /dev/shm. Only folders that belong to
// the user, and that no other user may enter, are used: if another user has taken the names of all,
// FOLDER-<six random characters> is one, which whoever looks finds by the beginning of its name.

namespace ddprun::agent::ask {

/// The folders that are there until the host is started again, whether or not they have been made:
/// the preferred one first.
std::vector<std::string> lasting_folders();

/// The folders in which a ddprun is asked, in the same order: before them $XDG_RUNTIME_DIR/ddprun,
/// which goes when the user has logged out.
std::vector<std::string> socket_folders();

/// Makes the first of `folders` that can be used, and gives the path of a socket in it, which is
/// short enough for one. Errors: system, about the last of them.
Result<std::string> socket_path(const std::vector<std::string>& folders, const std::string& job,
                                pid_t pid);

/// The same for heartbeats: a path that no other socket has.
Result<std::string> heartbeat_path(const std::vector<std::string>& folders);

/// A socket that was found by its name; its agent may have ended.
struct Socket {
  std::string path;
  pid_t pid = 0;  ///< of the ddprun that the user started; 0: the socket is for heartbeats
};

/// Returns the sockets in `folders`, and in the folders that replace those whose names were taken,
/// in the order of their paths.
std::vector<Socket> sockets_in(const std::vector<std::string>& folders);

}  // namespace ddprun::agent::ask
