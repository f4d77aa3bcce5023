// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace ddprun::cli {

/// What is wrong with the command line.
inline Error usage(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

}  // namespace ddprun::cli
