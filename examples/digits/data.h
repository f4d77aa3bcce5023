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

/// Reads a file of lines of 64 pixel values from 0 to 16 and a label. Throws std::runtime_error
/// that names the file and the line that is not like that.
Data load(const std::string& path);

/// Where the data lies when no --data is given: in the source tree this program was built from,
/// else beside the program.
std::string default_path();

}  // namespace digits
