// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/data.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace digits {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxPixel = 16;

/// Removes the number before the next comma from `rest`. -1: not a number from 0 to `high`.
int take_number(std::string_view& rest, int high) {
  const std::string_view field = rest.substr(0, rest.find(','));
  rest.remove_prefix(std::min(field.size() + 1, rest.size()));
  int value = -1;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool number = error == std::errc() && end == field.data() + field.size();
  return number && value <= high ? value : -1;
}

/// Parses `line` into `digit`. False: it is not a valid digit.
bool parse(std::string_view line, Digit& digit) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (float& pixel : digit.pixels) {
    const int value = take_number(line, kMaxPixel);
    if (value < 0) return false;
    pixel = static_cast<float>(value) / kMaxPixel;
  }
  digit.label = take_number(line, kClasses - 1);
  return digit.label >= 0 && line.empty();
}

}  // namespace

Data load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  Data data;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    Digit digit;
    if (!parse(line, digit)) {
      throw std::runtime_error(path + ":" + std::to_string(number) +
                               ": not 64 pixels from 0 to 16 and a label from 0 to 9");
    }
    (number % 5 == 0 ? data.held_out : data.training).push_back(digit);
  }
  if (data.held_out.empty()) throw std::runtime_error(path + ": fewer than 5 digits");
  return data;
}

std::string default_path() {
  std::error_code ignored;
  const fs::path built_from = fs::path(DIGITS_DATA_DIR) / "digits.csv";
  if (fs::exists(built_from, ignored)) return built_from;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / "data" / "digits.csv";
}

}  // namespace digits
