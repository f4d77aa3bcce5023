// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ddp/checkpoint.h>
#include <string>
#include <vector>

#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"

namespace ddprun::tests {

/// The parts of a checkpoint. Every element depends on the saved version.
struct SavedState {
  std::vector<float> weights = std::vector<float>(1000, -1);
  std::vector<double> momentum = std::vector<double>(300'001, -1);
  std::vector<std::int64_t> steps = std::vector<std::int64_t>(1, -1);

  std::vector<ddp::Buffer> parts() { return {weights, momentum, steps}; }

  void fill(double version) {
    std::size_t at = 0;
    for (float& one : weights) one = static_cast<float>(version) + static_cast<float>(++at % 9);
    for (double& one : momentum) one = version + static_cast<double>(++at % 1000) / 1000;
    steps[0] = static_cast<std::int64_t>(version);
  }
  bool operator==(const SavedState&) const = default;
};

/// The elements of all parts of version `version`, as in memory.
std::string elements_of(std::uint64_t version);

/// A folder with a checkpoint.
struct CheckpointFolder : Folder {
  std::string file = path / "state.ckpt";
  std::string previous = file + ".previous";

  /// The other files in the folder.
  std::vector<std::string> others() const;

  /// Each rank does `actions`, which are separated by spaces, in order. The file is `named` in the
  /// folder, or `file` if that is empty; "%" in `named` is the rank:
  ///
  ///     save:V    saves version V
  ///     begin:V   begins to save version V, and continues
  ///     end       waits for that
  ///     load      prints "loaded V", when all is as it was saved; "nothing", when there is no file
  ///     other     loads other parts than are saved
  ///     differ    loads other parts on each rank
  ///     device    saves what is said to be in device memory
  ///     limit     files of rank 0 cannot become longer than its header from now on: an error
  ///     kill      the same, and it dies of it
  ///
  /// Each rank prints an error on one line, and continues with the next action.
  std::vector<Ended> run(int size, const std::string& actions, const std::string& named = "") const;

  /// Runs actions that do nothing unexpected; `output` is every rank's output.
  void expect(int size, const std::string& actions, const std::string& output,
              const std::string& named = "") const;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

/// The line of an error that all ranks print.
std::string error_line(ddp::ErrorKind kind, const std::string& sentence);

}  // namespace ddprun::tests
