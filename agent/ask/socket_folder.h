// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

// The sockets of a user's ddpruns on this host: each has FOLDER/<job>.<pid>.sock for questions, and
// one for the heartbeats of its workers. FOLDER is $XDG_RUNTIME_DIR/ddprun, or else ddprun-<uid> in
// /tmp or /dev/shm. It must belong to the user, and no other user may enter it. If another user has
// taken all these names, ddprun makes FOLDER-<six random characters>; readers look for that, too.

namespace ddprun::agent::ask {

/// The folders that last until the host restarts, the preferred one first. They may not exist yet.
std::vector<std::string> lasting_folders();

/// The folders for questions, the preferred one first: $XDG_RUNTIME_DIR/ddprun, which vanishes when
/// the user has logged out, then the lasting ones.
std::vector<std::string> socket_folders();

/// Makes the first usable one of `folders`, and returns the path of a socket in it, short enough
/// for the kernel. Errors: system, about the last folder.
Result<std::string> socket_path(const std::vector<std::string>& folders, const std::string& job,
                                pid_t pid);

/// The same for heartbeats, and for the folder of a FlightRecorder: paths that nothing else has.
Result<std::string> heartbeat_path(const std::vector<std::string>& folders);
Result<std::string> recorder_path(const std::vector<std::string>& folders);

/// Begins the name of the latter; six random characters follow, as for remove_abandoned_dirs.
inline constexpr const char* kRecorderFolder = "recorder-";

/// Returns the `folders` that only this user may enter, and those made because a name was taken.
std::vector<std::string> safe_folders(const std::vector<std::string>& folders);

/// A socket that was found by its name; its agent may have ended.
struct Socket {
  std::string path;
  pid_t pid = 0;  ///< of the ddprun that the user started; 0: the socket is for heartbeats
};

/// Returns the sockets in `folders`, and in the folders made because a name was taken, by path.
std::vector<Socket> sockets_in(const std::vector<std::string>& folders);

}  // namespace ddprun::agent::ask
