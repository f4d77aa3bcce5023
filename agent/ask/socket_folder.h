// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

// Where the ddpruns of a user on this host can be asked: each has a socket
// FOLDER/<job>.<pid>.sock in $XDG_RUNTIME_DIR/ddprun, or else in /tmp/ddprun-<uid>. Only folders
// that belong to the user, and that no other user may enter, are used.

namespace ddprun::agent::ask {

/// The folders, whether or not they are there: the preferred one first.
std::vector<std::string> socket_folders();

/// Makes the first of `folders` that can be used, and gives the path of a socket in it, which is
/// short enough for one. Errors: system, about the last of them.
Result<std::string> socket_path(const std::vector<std::string>& folders, const std::string& job,
                                pid_t pid);

/// A socket that was found by its name; its agent may have ended.
struct Socket {
  std::string path;
  pid_t pid = 0;  ///< of the ddprun that the user started
};

/// Those in `folders`, in the order of their paths.
std::vector<Socket> sockets_in(const std::vector<std::string>& folders);

}  // namespace ddprun::agent::ask
