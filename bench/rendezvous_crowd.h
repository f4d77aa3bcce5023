// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sys/types.h>

#include "base/fd.h"
#include "bench/tcp_traffic.h"

// A rendezvous server and the agents of many nodes, a few processes in all: the agents are real
// clients without workers, each with its own connection. A failure in any of them ends the program.

namespace ddprun::bench {

/// A forked process that takes orders; the destructor kills it.
class Servant {
 public:
  /// `serve` runs in the new process, with its end of a socket.
  explicit Servant(const std::function<void(int socket)>& serve);
  Servant(const Servant&) = delete;
  Servant& operator=(const Servant&) = delete;
  ~Servant();

  void order(char what) const;

  /// Its next word; waits for it.
  template <class Word>
  Word hear() const {
    Word word;
    hear(&word, sizeof word);
    return word;
  }

 private:
  void hear(void* word, std::size_t size) const;

  pid_t pid_ = -1;
  Fd socket_;
};

/// What a server has used so far.
struct Usage {
  double cpu_seconds = 0;
  double peak_mib = 0;
};

/// The server of a job of `nodes` nodes. Its first word is its port (std::uint16_t); to 'u' it
/// answers with its Usage.
void serve_rendezvous(int socket, int nodes);

/// A part of the agents has come to a point.
struct Progress {
  std::int64_t last = 0;  ///< when the last of them did; monotonic, ns
};

struct Part {
  std::uint16_t port = 0;
  int nodes = 0;  ///< of the job
  int first = 0;  ///< its agents are [first, first + count)
  int count = 0;
};

/// The agents of `part`. Orders: 'j', all of them join; 'f', the first one reports that a worker
/// failed; 't', tell the Traffic so far. Whenever all have their layout, and whenever all know that
/// their round is broken (upon which each joins again at once), it says so (Progress).
void run_agents(int socket, const Part& part);

}  // namespace ddprun::bench
