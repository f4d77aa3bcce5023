// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::agent::web {

/// The page, one HTML text with its style and script, made of page.html, page.css and page.js by
/// cmake/embed_page.cmake.
extern const std::string_view kPage;

/// Lets a browser run this script, use this style and ask this server, and nothing else.
extern const std::string_view kPagePolicy;

}  // namespace ddprun::agent::web
