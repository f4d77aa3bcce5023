// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// A page of the manual, for a terminal and in the language of man. Pure.

namespace ddprun::cli {

/// A term, such as a flag, and its meaning.
struct Item {
  std::string term;
  std::string text;
};

/// A part of a page. `text` has paragraphs, with an empty line between two. A paragraph that begins
/// with four spaces is a command line, and stays as it is.
struct Section {
  std::string_view topic;  ///< its name for `ddprun help`; empty: it has none
  std::string title;       ///< empty: for the page's beginning
  std::string text;
  std::vector<Item> items = {};
};

/// One page of the manual.
struct Page {
  std::string name;     ///< "ddprun-serve"
  std::string summary;  ///< half a sentence, as in the NAME section of a manual page
  std::vector<std::string> usage;
  std::vector<Section> sections;
};

/// The page for a terminal. Lines have at most 80 characters, unless a word is longer.
std::string plain_text(const Page& page);
std::string plain_text(const Section& section);

/// The source of the manual page, without a date: the same text for the same version.
std::string man_page(const Page& page, std::string_view version);

}  // namespace ddprun::cli
