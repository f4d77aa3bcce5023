// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace ddp {

/// Converts objects of type T to bytes and back, for the calls of a ProcessGroup with objects.
/// Programs specialize it, for example for nlohmann::json:
///
///     template <>
///     struct ddp::Serializer<nlohmann::json> {
///       static std::string to_bytes(const nlohmann::json& object) { return object.dump(); }
///       static nlohmann::json from_bytes(std::string_view bytes) {
///         return nlohmann::json::parse(bytes);
///       }
///     };
template <class T>
struct Serializer {};

/// A type whose Serializer is specialized.
template <class T>
concept Serializable = requires(const T& object, std::string_view bytes) {
  { Serializer<T>::to_bytes(object) } -> std::convertible_to<std::string>;
  { Serializer<T>::from_bytes(bytes) } -> std::convertible_to<T>;
};

}  // namespace ddp
