// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace ddprun::agent {

/// Which process of this host is a job's master, where the master may be at one of several ports:
/// the first one that is free would not tell that an earlier process of the job is stuck, and may
/// still have its workers. It is a name of the network's namespace, as the ports are, that the
/// kernel frees when its process has ended. Nobody can connect to it, or send it anything.
class MasterMark {
 public:
  /// Of the job with this id, of this user.
  explicit MasterMark(const std::string& run_id);

  /// Takes it. False: another process of this user has it. True also where the kernel refuses such
  /// sockets, or another user has taken its name: then nothing is known.
  bool take();

  /// The inode of the socket that had it when it could not be taken; 0: unknown.
  std::uint32_t owner() const { return owner_; }

 private:
  std::string name_;
  Fd socket_;
  std::uint32_t owner_ = 0;
};

}  // namespace ddprun::agent
