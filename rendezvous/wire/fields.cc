// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/fields.h"

#include <algorithm>
#include <climits>

#include "base/json.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::uint64_t kMaxCount = 1ULL << 53;
constexpr double kMaxSeconds = 1e9;  // 31 years: any clock can count them
constexpr std::int64_t kMaxMilliseconds = 1'000'000'000'000;

bool continues_character(char byte) {  // in UTF-8
  return (byte & 0xc0) == 0x80;
}

}  // namespace

std::string tail(const std::string& text) {
  if (text.size() <= kMaxText) return text;
  size_t begin = text.size() - kMaxText;
  for (int i = 0; i < 3 && continues_character(text[begin]); ++i) ++begin;
  return text.substr(begin);
}

bool is_plain(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20; });
}

std::string Fields::text(const char* name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_string()) return wrong(name), std::string();
  auto text = value->get<std::string>();
  if (text.size() > most) return wrong(name), std::string();
  return text;
}

int Fields::integer(const char* name, int min, int max) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_number_integer()) return wrong(name), min;
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > INT_MAX;
  const auto number = huge ? std::int64_t{INT_MAX} + 1 : value->get<std::int64_t>();
  if (number < min || number > max) return wrong(name), min;
  return static_cast<int>(number);
}

std::uint64_t Fields::count(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_number_unsigned()) return wrong(name), 0;
  const auto number = value->get<std::uint64_t>();
  if (number > kMaxCount) return wrong(name), 0;
  return number;
}

std::chrono::milliseconds Fields::milliseconds(const char* name) {
  const std::uint64_t number = count(name);
  if (number > kMaxMilliseconds) return wrong(name), std::chrono::milliseconds(0);
  return std::chrono::milliseconds(number);
}

double Fields::seconds(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_number()) return wrong(name), 0;
  const auto number = value->get<double>();
  if (!(number >= 0 && number <= kMaxSeconds)) return wrong(name), 0;  // false for NaN, too
  return number;
}

bool Fields::boolean(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_boolean()) return wrong(name), false;
  return value->get<bool>();
}

const Json& Fields::list(const char* name, size_t most) {
  static const Json empty = Json::array();
  const Json* value = find(name);
  if (value == nullptr || !value->is_array() || value->size() > most) return wrong(name), empty;
  return *value;
}

std::vector<int> Fields::ranks(const char* name, size_t most) {
  std::vector<int> ranks;
  for (const Json& element : list(name, most)) {
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() > INT_MAX) {
      return wrong(name), std::vector<int>();
    }
    ranks.push_back(element.get<int>());
  }
  return ranks;
}

const Json& Fields::object(const char* name) {
  static const Json empty = Json::object();
  const Json* value = find(name);
  if (value == nullptr || !value->is_object()) return wrong(name), empty;
  return *value;
}

void Fields::take_error(const Fields& inner) {
  if (error_.empty()) error_ = inner.error_;
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void Fields::wrong(const char* name) {
  if (error_.empty()) error_ = "field '" + std::string(name) + "' is missing or out of range";
}

}  // namespace ddprun::rendezvous
