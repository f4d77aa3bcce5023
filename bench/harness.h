// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "bench/stamp.h"

// Shared by the benchmarks of launchers. They measure all launchers side by side in one run, so
// that other load on the machine affects all alike. A failed system call ends the program.

namespace ddprun::bench {

using Words = std::vector<std::string>;

/// A launcher under test.
struct Launcher {
  enum class Kind { bare_loop, ddprun, hydra, openmpi, torchrun };

  Kind kind;
  std::string name;
  Words program;  ///< first words of its command

  /// The whole command to start `count` copies of `worker`.
  Words command(int count, int restarts, const Words& worker) const;

  bool restarts() const {
    return kind == Kind::bare_loop || kind == Kind::ddprun || kind == Kind::torchrun;
  }
};

/// This build's ddprun, and $DDPRUN_BENCH_BASELINE, the ddprun of another build to compare with.
std::vector<Launcher> ddpruns();

/// The bare loop, ddpruns(), and those of mpiexec.hydra, Open MPI's mpirun and torchrun that work
/// here ($DDPRUN_BENCH_TORCHRUN is torchrun's command if not in the PATH). Prints the others.
std::vector<Launcher> launchers();

/// `pid` and its descendants, except the workers: the processes of a launcher.
std::vector<pid_t> launcher_processes(pid_t pid);

/// The path of a program in this one's folder.
std::string built_program(const std::string& name);

/// The first executable file of that name in the PATH; empty: not found.
std::string which(const std::string& name);

/// A running launcher, with a new file of stamps, its stdio on /dev/null, and a FIFO, the gate, for
/// which its workers can wait. The destructor kills the launchers and the workers that wrote
/// stamps, and removes the files.
class Run {
 public:
  explicit Run(const Words& command);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  pid_t pid() const { return pid_; }
  std::int64_t began() const { return began_; }

  /// Starts another launcher with the same stamps and gate: the next node of its job.
  pid_t add(const Words& command);

  /// When the launcher ended; nullopt: not within `limit_ms`, so it was killed. Reaps it.
  std::optional<std::int64_t> wait_for_end(int limit_ms);

  /// Whether it ended with exit code 0; call after wait_for_end.
  bool succeeded() const { return status_ == 0; }

  /// Waits until `count` workers are in main(). False: not within 60 s, or the launcher ended.
  bool wait_for_workers(int count);

  /// Makes the worker that waits for the gate fail: 'e' exits with 1, 'k' kills itself.
  void open_gate(char how) const;

  std::vector<Stamp> stamps() const;

 private:
  std::string folder_;
  Fd gate_;
  Fd pidfd_;
  pid_t pid_ = -1;
  std::vector<pid_t> more_;
  bool reaped_ = false;
  int status_ = -1;
  std::int64_t began_ = 0;
};

/// When each process of `pids` had ended; empty for those that had not within `limit_ms`. They need
/// not be child processes.
std::vector<std::optional<std::int64_t>> ends_of(const std::vector<pid_t>& pids, int limit_ms);

/// NaN if there are no values.
double median(std::vector<double> values);

/// "12.3", or "-" for NaN.
std::string cell(double value, int decimals = 1);

}  // namespace ddprun::bench
