// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::tests {

/// Whether `part` is somewhere in `text`.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddprun::tests
