// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

namespace digits {

constexpr int kPixels = 64;
constexpr int kClasses = 10;

struct Digit {
  std::array<float, kPixels> pixels;  ///< 0 (paper) to 1 (ink)
  int label = 0;                      ///< 0 to 9
};

struct Data {
  std::vector<Digit> training;
  std::vector<Digit> held_out;  ///< every fifth line of the file: never trained on
};

/// Reads a file with 64 pixel values from 0 to 16 and a label per line. Throws std::runtime_error,
/// which names the file and the first malformed line.
Data load(const std::string& path);

/// The default of --data: in the source tree that this program was built from, else beside the
/// program.
std::string default_path();

}  // namespace digits
