// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <climits>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp::internal {

/// A message of a spawned process to the one that spawned it. A write of at most PIPE_BUF bytes to
/// a pipe is atomic, so reports are whole and in the order of the failures (pipe(7)).
struct SpawnReport {
  enum class Kind { begun, failed, lost_another };
  int rank = 0;
  Kind kind = Kind::failed;
  std::array<char, PIPE_BUF - 16> text{};  ///< of the exception
};
static_assert(sizeof(SpawnReport) <= PIPE_BUF);

/// Runs `fn` as this rank and ends the process; reports an exception.
[[noreturn]] void run_spawned(int rank, const std::function<void(int)>& fn, int pipe);

/// Whether this process was spawned.
bool is_spawned();

/// The environment variables of a rank.
std::vector<std::pair<std::string, std::string>> variables_of_rank(int rank, int nprocs,
                                                                   std::uint16_t port);

/// This program, to be run again as a rank up to the spawn of this number. Made before the fork:
/// after it nothing may be allocated, as another thread may have held the allocator's lock.
class ProgramAgain {
 public:
  ProgramAgain(int rank, int nprocs, std::uint16_t port, int spawn_number, int pipe);

  /// Runs the program in this process; reports if that fails.
  [[noreturn]] void execute();

 private:
  std::vector<std::string> words_;
  std::vector<std::string> variables_;
  std::vector<char*> arguments_;
  std::vector<char*> environment_;
  int pipe_;
  SpawnReport report_;
};

/// The part of a process that runs the program again, in one of its calls of spawn.
struct SpawnedPart {
  bool is_later = false;  ///< nothing: its part is a later call
  int rank = 0;
  int pipe = -1;
};

/// Returns nothing if this process was started otherwise, or has found its part.
std::optional<SpawnedPart> find_part(int spawn_number);

}  // namespace ddp::internal
