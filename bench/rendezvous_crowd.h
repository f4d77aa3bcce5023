// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sys/types.h>

#include "base/fd.h"
#include "bench/tcp_traffic.h"

// A rendezvous server and the agents of many nodes, in a few processes. The agents are real clients
// without workers, each with its own connection. A failure in any of them ends the program.

namespace ddprun::bench {

/// A forked process that gets one-byte commands and answers with values; the destructor kills it.
class ChildProcess {
 public:
  /// `serve` runs in the new process, with its end of a socket.
  explicit ChildProcess(const std::function<void(int socket)>& serve);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  void send(char command) const;

  /// Waits for its next value.
  template <class Value>
  Value read() const {
    Value value;
    read(&value, sizeof value);
    return value;
  }

 private:
  void read(void* value, std::size_t size) const;

  pid_t pid_ = -1;
  Fd socket_;
};

/// Resources that a server has used so far.
struct Usage {
  double cpu_seconds = 0;
  double loop_seconds = 0;  ///< the part of the event loop's thread
  double peak_mib = 0;
};

/// Serves a job of `nodes` nodes, with or without a secret. Sends its port (std::uint16_t) first;
/// answers the command 'u' with its Usage.
void serve_rendezvous(int socket, int nodes, bool secret);

/// The report that all agents of a part have reached a point.
struct Progress {
  std::int64_t last = 0;  ///< when the last agent did; monotonic, ns
};

struct Part {
  std::uint16_t port = 0;
  int nodes = 0;  ///< of the job
  int first = 0;  ///< its agents are [first, first + count)
  int count = 0;
  bool secret = false;  ///< the job has one
};

/// The time that `ddprun status` took.
struct Asked {
  double ms = 0;            ///< until its text was made
  std::size_t answers = 0;  ///< complete answers of nodes
};

/// Runs the agents of `part`. Commands: 'j': all of them join; 'f': the first one reports a failed
/// worker; 's': it asks all nodes for their status, and Asked is sent; 't': sends the Traffic so
/// far. Sends Progress when all have their layout, and when all know that their round is broken
/// (each joins again at once).
void run_agents(int socket, const Part& part);

}  // namespace ddprun::bench
