// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Bytes in a page of their own. The destructor overwrites them, also in forked processes. From the
/// first Secret on this process leaves no core dump, and only root can trace it or read its memory
/// and environment (PR_SET_DUMPABLE, until an exec). Move-only; a new one is empty.
class Secret {
 public:
  Secret() = default;
  /// Copies `bytes`. Throws std::bad_alloc if no memory is left.
  explicit Secret(std::string_view bytes);
  Secret(Secret&& other) noexcept { *this = static_cast<Secret&&>(other); }
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { wipe(); }

  std::string_view view() const { return {bytes_, size_}; }
  explicit operator bool() const { return size_ > 0; }

  /// Overwrites the bytes and becomes empty.
  void wipe();

 private:
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// Takes the variable `name` out of this process's environment: overwrites its value where the
/// kernel shows it (/proc/PID/environ), and removes it. Empty: the variable is unset or empty.
Secret take_variable(const char* name);

/// 128 random bits in hexadecimal: unique, and impossible to guess.
std::string random_name();

}  // namespace ddprun
