// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <sys/types.h>

// The part of libpmix.so.2 that PmixServer uses: PMIx 4.2 to 6.1 have these sizes, places and
// numbers in common. libpmix is loaded by name, as its users have different ones.

namespace ddprun::agent::pmix {

using Status = int;
inline constexpr Status kSuccess = 0;
inline constexpr Status kProcAborted = -7;
inline constexpr Status kNotSupported = -47;
inline constexpr Status kOperationSucceeded = -157;  ///< done: no callback follows

inline constexpr std::uint32_t kWildcard = UINT32_MAX - 1;  ///< all ranks of a namespace

struct Proc {
  std::array<char, 256> nspace;
  std::uint32_t rank;
};
static_assert(sizeof(Proc) == 260);

enum class Type : std::uint16_t {
  string = 3,
  size = 4,
  uint32 = 14,
  proc = 22,
  byte_object = 27,
  array = 39,
  rank = 40,
  regex = 49,
};
enum class Range : std::uint8_t { of_namespace = 3 };

/// A key and its value, which only info_load() writes.
struct Info {
  std::array<char, 512> key;
  std::uint32_t flags;
  alignas(8) std::array<std::byte, 32> value;
};
static_assert(sizeof(Info) == 552);

struct ByteObject {
  const char* bytes;
  std::size_t size;
};

struct Array {
  Type type;
  std::size_t size;
  const void* elements;
};

/// Returns the bytes of an Info whose value is a ByteObject; nullopt: it is something else.
inline std::optional<std::string_view> bytes_of(const Info& info) {
  struct Value {
    Type type;
    alignas(8) ByteObject bytes;
  } value;
  static_assert(sizeof value <= sizeof info.value);
  std::memcpy(&value, info.value.data(), sizeof value);
  if (value.type != Type::byte_object) return std::nullopt;
  return std::string_view(value.bytes.bytes, value.bytes.size);
}

enum class GroupCall : int { construct = 0, destruct = 1 };

using Done = void (*)(Status, void* data);
using Release = void (*)(void* data);
using ModexDone = void (*)(Status, const char* bytes, std::size_t size, void* data, Release,
                           void* release_data);

using InfoDone = void (*)(Status, Info*, std::size_t, void* data, Release, void* release_data);

/// The callbacks, in the order of pmix_server_module_t up to that of PMIx 4.2; later releases have
/// more, which stay empty.
struct Module {
  using Unused = void (*)();

  Unused client_connected;
  Status (*client_finalized)(const Proc*, void* object, Done, void* data);
  Status (*abort)(const Proc*, void* object, Status, const char* text, Proc*, std::size_t, Done,
                  void* data);
  Status (*fence_nb)(const Proc*, std::size_t, const Info*, std::size_t, char* bytes,
                     std::size_t size, ModexDone, void* data);
  Unused direct_modex;
  Status (*publish)(const Proc*, const Info*, std::size_t, Done, void* data);
  Status (*lookup)(const Proc*, char** keys, const Info*, std::size_t, Unused, void* data);
  Unused unpublish;
  Status (*spawn)(const Proc*, const Info*, std::size_t, const void* apps, std::size_t, Unused,
                  void* data);
  Unused connect, disconnect;
  Status (*register_events)(Status*, std::size_t, const Info*, std::size_t, Done, void* data);
  Status (*deregister_events)(Status*, std::size_t, Done, void* data);
  Unused listener, notify_event, query, tool_connected, log, allocate;
  Status (*job_control)(const Proc*, const Proc*, std::size_t, const Info*, std::size_t, Unused,
                        void* data);
  Unused monitor, get_credential, validate_credential, iof_pull, push_stdin;
  Status (*group)(GroupCall, char* name, const Proc*, std::size_t, const Info*, std::size_t,
                  InfoDone, void* data);
  Unused fabric;
  Status (*client_connected2)(const Proc*, void* object, Info*, std::size_t, Done, void* data);
  std::array<Unused, 36> of_later_releases;
};

using ServerInit = Status(Module*, Info*, std::size_t);
using Generate = Status(const char* input, char** output);
using RegisterNamespace = Status(const char* nspace, int local_size, Info*, std::size_t, Done,
                                 void* data);
using RegisterClient = Status(const Proc*, uid_t, gid_t, void* object, Done, void* data);
using SetupFork = Status(const Proc*, char*** environment);
using InfoLoad = Status(Info*, const char* key, const void* value, Type);
using NotifyEvent = Status(Status event, const Proc* source, Range, const Info*, std::size_t, Done,
                           void* data);
using ErrorString = const char*(Status);
using GetVersion = const char*();

}  // namespace ddprun::agent::pmix
