// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace ddprun::agent {

/// Marks the process of this host that is a job's master, if the master has several ports: a free
/// port does not show whether an earlier process of the job is stuck, and still has its workers.
/// The mark is a name in the network namespace, like the ports. The kernel frees it when its
/// process has ended. Nobody can connect to it, or send it anything.
class MasterMark {
 public:
  /// The mark of this user's job with this id.
  explicit MasterMark(const std::string& run_id);

  /// Takes the mark. Returns false if another process of this user has it. Returns true also if the
  /// kernel refuses such sockets, or another user has taken the name: then nothing is known.
  bool take();

  /// The inode of the owner's socket when take() failed; 0: unknown.
  std::uint32_t owner() const { return owner_; }

 private:
  std::string name_;
  Fd socket_;
  std::uint32_t owner_ = 0;
};

}  // namespace ddprun::agent
