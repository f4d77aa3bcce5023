// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "rendezvous/wire/fields.h"

// A struct that crosses the wire is described once, by a function
//
//   template <class Io> void describe(Io& io, Is<FailedWorker> auto& worker) {
//     io.integer("rank", worker.rank, 0, INT_MAX);
//     io.text("how", worker.how, kMaxHow);
//   }
//
// FieldWriter visits it to encode, FieldReader to decode. A text or list that is too long is cut by
// the writer and refused by the reader. Pure.

namespace ddprun::rendezvous {

/// A struct, or the same to read from.
template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

/// The "type" of a message, or of an alternative of a variant, on the wire.
template <class T>
inline constexpr const char* kWireName = nullptr;

template <class T>
inline constexpr bool kIsVariant = false;
template <class... Ts>
inline constexpr bool kIsVariant<std::variant<Ts...>> = true;

class FieldWriter;
class FieldReader;
template <class T>
void write_typed(Json& object, const T& value);
template <class... Ts>
bool read_typed(Fields& fields, const std::string& type, std::variant<Ts...>& value);

/// Writes fields into a JSON object, which has to outlive it.
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  explicit FieldWriter(Json& object) : object_(object) {}

  /// A text whose end says more than its beginning.
  void text(const char* name, const std::string& value) { object_[name] = tail(value); }

  /// A text of which the first `most` bytes are enough.
  void text(const char* name, const std::string& value, size_t most) {
    object_[name] = value.substr(0, most);
  }

  /// A text that makes no sense in part: the sender keeps it short.
  void token(const char* name, const std::string& value, size_t) { object_[name] = value; }

  /// A token without control characters.
  void plain(const char* name, const std::string& value, size_t) { object_[name] = value; }

  void integer(const char* name, std::integral auto value, int, int) { object_[name] = value; }
  void count(const char* name, std::uint64_t value) { object_[name] = value; }
  void seconds(const char* name, double value) { object_[name] = value; }
  void boolean(const char* name, bool value) { object_[name] = value; }

  void milliseconds(const char* name, std::chrono::milliseconds value) {
    object_[name] = value.count();
  }

  /// An enumerator, as its number; `last` is the highest.
  template <class Enum>
  void enumerator(const char* name, Enum value, Enum) {
    object_[name] = static_cast<int>(value);
  }

  void ranks(const char* name, const std::vector<int>& value, size_t most) {
    const auto count = std::min(value.size(), most);
    object_[name] = std::vector<int>(value.begin(), value.begin() + static_cast<long>(count));
  }

  void booleans(const char* name, const std::vector<bool>& value, size_t) { object_[name] = value; }

  void tokens(const char* name, const std::vector<std::string>& value, size_t, size_t) {
    object_[name] = value;
  }

  /// The first `most` texts, and of each the first `longest` bytes.
  void texts(const char* name, const std::vector<std::string>& value, size_t most, size_t longest) {
    Json& elements = object_[name] = Json::array();
    for (size_t i = 0; i < std::min(value.size(), most); ++i) {
      elements.push_back(value[i].substr(0, longest));
    }
  }

  /// The first `most` structs.
  template <class T>
  void list(const char* name, const std::vector<T>& value, size_t most) {
    Json& elements = object_[name] = Json::array();
    for (const T& element : value) {
      if (elements.size() == most) break;
      FieldWriter io(elements.emplace_back(Json::object()));
      describe(io, element);
    }
  }

  /// Structs that make no sense in part: the sender has at most `most`.
  template <class T>
  void whole_list(const char* name, const std::vector<T>& value, size_t) {
    list(name, value, value.size());
  }

  /// A struct, in an object of its own; a variant has its "type" there.
  template <class T>
  void object(const char* name, const T& value) {
    Json& inner = object_[name] = Json::object();
    if constexpr (kIsVariant<T>) {
      write_typed(inner, value);
    } else {
      FieldWriter io(inner);
      describe(io, value);
    }
  }

  /// Whether the optional value is there: then its description follows, with the field `name`.
  template <class T>
  bool present(const char*, const std::optional<T>& value) {
    return value.has_value();
  }

  /// The reader refuses the field `name`, which was read, unless `makes_sense`.
  void require(bool, const char*) {}

 private:
  Json& object_;
};

/// Reads the same fields. The first one that is missing or wrong is remembered by the Fields.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(Fields& fields) : fields_(fields) {}

  void text(const char* name, std::string& value) { value = fields_.text(name); }

  void text(const char* name, std::string& value, size_t most) {
    value = fields_.text(name, kReplacement * most);
  }

  void token(const char* name, std::string& value, size_t most) {
    value = fields_.text(name, most);
  }

  void plain(const char* name, std::string& value, size_t most) {
    value = fields_.text(name, most);
    require(is_plain(value), name);
  }

  template <std::integral Int>
  void integer(const char* name, Int& value, int min, int max) {
    value = static_cast<Int>(fields_.integer(name, min, max));
  }

  void count(const char* name, std::uint64_t& value) { value = fields_.count(name); }
  void seconds(const char* name, double& value) { value = fields_.seconds(name); }
  void boolean(const char* name, bool& value) { value = fields_.boolean(name); }

  void milliseconds(const char* name, std::chrono::milliseconds& value) {
    value = fields_.milliseconds(name);
  }

  template <class Enum>
  void enumerator(const char* name, Enum& value, Enum last) {
    value = static_cast<Enum>(fields_.integer(name, 0, static_cast<int>(last)));
  }

  void ranks(const char* name, std::vector<int>& value, size_t most) {
    value = fields_.ranks(name, most);
  }

  void booleans(const char* name, std::vector<bool>& value, size_t most) {
    for (const Json& element : fields_.list(name, most)) {
      require(element.is_boolean(), name);
      value.push_back(element == true);
    }
  }

  void tokens(const char* name, std::vector<std::string>& value, size_t most, size_t longest) {
    for (const Json& element : fields_.list(name, most)) {
      const auto* text = element.get_ptr<const std::string*>();
      if (text == nullptr || text->size() > longest) return fields_.refuse(name);
      value.push_back(*text);
    }
  }

  void texts(const char* name, std::vector<std::string>& value, size_t most, size_t longest) {
    tokens(name, value, most, kReplacement * longest);
  }

  template <class T>
  void list(const char* name, std::vector<T>& value, size_t most) {
    for (const Json& element : fields_.list(name, most)) {
      Fields inner(element);
      FieldReader io(inner);
      describe(io, value.emplace_back());
      fields_.take_error(inner);
    }
  }

  template <class T>
  void whole_list(const char* name, std::vector<T>& value, size_t most) {
    list(name, value, most);
  }

  template <class T>
  void object(const char* name, T& value) {
    Fields inner(fields_.object(name));
    if constexpr (kIsVariant<T>) {
      require(read_typed(inner, inner.text("type"), value), name);
    } else {
      FieldReader io(inner);
      describe(io, value);
    }
    fields_.take_error(inner);
  }

  template <class T>
  bool present(const char* name, std::optional<T>& value) {
    if (fields_.has(name)) value.emplace();
    return value.has_value();
  }

  void require(bool makes_sense, const char* name) {
    if (!makes_sense) fields_.refuse(name);
  }

 private:
  static constexpr size_t kReplacement = 3;  // bytes that stand for one that was not UTF-8

  Fields& fields_;
};

/// Writes a struct with its "type". A variant is the alternative that it has.
template <class T>
void write_typed(Json& object, const T& value) {
  if constexpr (kIsVariant<T>) {
    std::visit([&object](const auto& alternative) { write_typed(object, alternative); }, value);
  } else {
    static_assert(kWireName<T> != nullptr);
    object["type"] = kWireName<T>;
    FieldWriter io(object);
    describe(io, value);
  }
}

/// Reads the alternative that is called `type`, also of a variant within. False: there is none.
template <class T, class Variant>
bool read_alternative(Fields& fields, const std::string& type, Variant& value) {
  T alternative{};
  if constexpr (kIsVariant<T>) {
    if (!read_typed(fields, type, alternative)) return false;
  } else {
    static_assert(kWireName<T> != nullptr);
    if (type != kWireName<T>) return false;
    FieldReader io(fields);
    describe(io, alternative);
  }
  value = std::move(alternative);
  return true;
}

template <class... Ts>
bool read_typed(Fields& fields, const std::string& type, std::variant<Ts...>& value) {
  return (read_alternative<Ts>(fields, type, value) || ...);
}

}  // namespace ddprun::rendezvous
