// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Whole files, read and written as text. Blocks as long as the disk does.

namespace ddprun {

/// Returns all of a file, such as one of /proc; empty if it cannot be read.
std::string file_text(const std::string& path);

/// Returns the number that a file begins with; nullopt: there is none.
std::optional<std::int64_t> file_number(const std::string& path);

/// Appends the rest of the file `fd` to `text`, which gets no longer than `most` bytes. Returns 0
/// or an errno.
int read_all(int fd, std::size_t most, std::string& text);

/// Writes all of `text` to `fd`. Returns 0 or an errno.
int write_all(int fd, std::string_view text);

}  // namespace ddprun
