// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun {

/// Bytes in a page of their own; overwritten when this is destroyed, also in forked processes. From
/// the first one on this process leaves no core dump, and only root traces it or reads its memory
/// and environment (PR_SET_DUMPABLE, until an exec). Move-only; a new one is empty.
class Secret {
 public:
  Secret() = default;
  /// A copy of `bytes`. Throws std::bad_alloc when no memory is left.
  explicit Secret(std::string_view bytes);
  Secret(Secret&& other) noexcept { *this = static_cast<Secret&&>(other); }
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { wipe(); }

  std::string_view view() const { return {bytes_, size_}; }
  explicit operator bool() const { return size_ > 0; }

  /// Overwrites the bytes; it is empty then.
  void wipe();

 private:
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// Takes the variable `name` out of this process's environment: overwrites its value where the
/// kernel shows it (/proc/PID/environ), and removes it. Empty: there is none, or it has no value.
Secret take_variable(const char* name);

}  // namespace ddprun
