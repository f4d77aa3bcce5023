// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::tests {

/// Whether `text` contains `part`.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddprun::tests
