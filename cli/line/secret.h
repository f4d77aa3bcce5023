// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

namespace ddprun::cli {

/// The environment variables that may hold the secret itself, or the name of its file.
constexpr const char* kSecretVariable = "DDPRUN_SECRET";
constexpr const char* kSecretFileVariable = "DDPRUN_SECRET_FILE";

/// The bytes of a secret, written as `ddprun secret` does: at least 32 hexadecimal digits. Ignores
/// white space around them. Errors: usage; they name `source`, and never the text.
Result<Secret> decode_secret(std::string_view text, const std::string& source);

/// Reads the secret of a file. It must be this user's or root's, and no other user may read it.
/// Errors: usage.
Result<Secret> read_secret_file(const std::string& path);

/// A secret's bytes as `ddprun secret` writes them, without the newline.
Secret secret_text(const Secret& secret);

/// A new secret of 256 bits. Errors: system.
Result<Secret> new_secret();

/// Writes a new secret of 256 bits to stdout, or to a new file that only its owner may read.
/// Errors: usage (the file exists), system.
Result<> make_secret(const std::string& file);

}  // namespace ddprun::cli
