// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

namespace ddprun::cli {

/// The environment variable that may hold the secret itself, and that for the name of a file.
constexpr const char* kSecretVariable = "DDPRUN_SECRET";
constexpr const char* kSecretFileVariable = "DDPRUN_SECRET_FILE";

/// The bytes of a secret that is written as `ddprun secret` does: at least 32 hexadecimal digits.
/// White space around them is ignored. Errors: usage, which name `source` and never the text.
Result<Secret> decode_secret(std::string_view text, const std::string& source);

/// The secret in a file that is this user's or root's, and that no other user may read. Errors:
/// usage.
Result<Secret> read_secret_file(const std::string& path);

/// A secret's bytes as `ddprun secret` writes them, without the newline.
Secret secret_text(const Secret& secret);

/// A new secret of 256 bits. Errors: system.
Result<Secret> new_secret();

/// Writes a new secret of 256 bits to stdout, or to a new file that only its owner may read.
/// Errors: usage (the file exists), system.
Result<> make_secret(const std::string& file);

}  // namespace ddprun::cli
