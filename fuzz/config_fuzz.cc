// SPDX-License-Identifier: Apache-2.0
// Arbitrary text as a configuration file. An accepted entry is a flag with a value, from a line of
// the file; anything else is refused in one line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cli/line/config.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  using fuzz::require;
  if (size > cli::kLongestConfig) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto entries = cli::parse_config(text, "f");
  if (!entries) {
    require(entries.error().code == Errc::usage, "a wrong file is the user's error");
    require(entries.error().message.starts_with("f:"), "an error has its place");
    return 0;
  }
  for (const cli::ConfigEntry& entry : *entries) {
    require(entry.flag != nullptr, "an entry sets a flag");
    require(entry.value.find('\0') == entry.value.npos, "a value has no zero byte");
    const bool is_switch = entry.flag->value.empty();
    require(!is_switch || entry.value == "0" || entry.value == "1", "a switch is on or off");
    require(
        std::count_if(entries->begin(), entries->end(),
                      [&](const cli::ConfigEntry& other) { return other.flag == entry.flag; }) == 1,
        "a flag is set once");
  }
  return 0;
}
