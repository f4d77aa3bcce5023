// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "collectives/gloo_backend.h"
#include "ddp/error.h"

namespace ddp::internal {

/// What a rank says that fails. The first rank to fail decides for all: its sentence becomes the
/// group's verdict, kept in the store. So a rank may break its connections only afterwards: whoever
/// sees them break finds the verdict.

/// `sentence` begins after "rank N "; `where` is "in call 12, barrier" or "while connecting".
Error agree_on(Meeting& meeting, const std::string& where, ErrorKind kind,
               const std::string& sentence);

/// The same for a rank whose connection ended, and for one that was waited for too long.
Error agree_on_loss(Meeting& meeting, const std::string& where, int partner,
                    const std::string& reason);
Error agree_on_timeout(Meeting& meeting, const std::string& where, int partner);

/// One of these two, by what Gloo threw in dealing with `partner`.
Error agree_on_failure(Meeting& meeting, const std::string& where, int partner,
                       const std::exception& failure);

/// What Gloo says, without the place in its source that it puts in front.
std::string what_gloo_says(const std::exception& failure);

/// Asks the store while the ranks join, and throws what it throws as this rank's.
void ask_store(const Meeting& meeting, const std::function<void(Store& store)>& ask);

}  // namespace ddp::internal
