// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/texts.h"

#include <array>
#include <cstdio>

namespace ddprun::doctor {

std::string size_text(std::int64_t bytes) {
  constexpr int kUnit = 1024;
  std::array<char, 32> text;
  const double kib = static_cast<double>(bytes) / kUnit;
  if (kib < kUnit) {
    std::snprintf(text.data(), text.size(), "%.3g KiB", kib);
  } else if (kib < kUnit * kUnit) {
    std::snprintf(text.data(), text.size(), "%.0f MiB", kib / kUnit);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f GiB", kib / kUnit / kUnit);
  }
  return text.data();
}

}  // namespace ddprun::doctor
