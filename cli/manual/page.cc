// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/page.h"

#include <algorithm>

namespace ddprun::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kItemIndent = 6;
constexpr std::string_view kVerbatim = "    ";  // begins a paragraph that is not filled

/// The parts between the separators.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

void append_filled(std::string& out, std::string_view text, size_t indent) {
  size_t column = 0;
  for (const std::string_view word : split_text(text, " ")) {
    if (column == 0 || column + 1 + word.size() > kWidth) {
      if (column != 0) out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

void append_paragraphs(std::string& out, std::string_view text) {
  std::string_view gap;
  for (const std::string_view paragraph : split_text(text, "\n\n")) {
    out += gap;
    if (paragraph.starts_with(kVerbatim)) {
      out.append(paragraph).append("\n");
    } else {
      append_filled(out, paragraph, 0);
    }
    gap = "\n";
  }
}

/// In the language of man, only letters, digits and some signs mean themselves.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':  // a hyphen could not be copied into a command line
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// A line of text. If it began with a dot, man would take it for a request.
std::string man_line(std::string_view text) {
  return (text.starts_with('.') ? "\\&" : "") + escaped(text) + "\n";
}

void append_verbatim(std::string& out, std::string_view paragraph) {
  out += ".PP\n.RS 4\n.nf\n";
  for (const std::string_view line : split_text(paragraph, "\n")) {
    const bool is_indented = line.starts_with(kVerbatim);
    out += man_line(is_indented ? line.substr(kVerbatim.size()) : line);
  }
  out += ".fi\n.RE\n";
}

void append_man_paragraphs(std::string& out, std::string_view text) {
  bool is_first = true;
  for (const std::string_view paragraph : split_text(text, "\n\n")) {
    if (paragraph.starts_with(kVerbatim)) {
      append_verbatim(out, paragraph);
    } else {
      out.append(is_first ? "" : ".PP\n").append(man_line(paragraph));
    }
    is_first = false;
  }
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

void append_man_section(std::string& out, const Section& section) {
  const std::string title = section.title.empty() ? "DESCRIPTION" : upper(section.title);
  out.append(".SH \"").append(escaped(title)).append("\"\n");
  append_man_paragraphs(out, section.text);
  for (const Item& item : section.items) {
    out.append(".TP\n\\fB").append(escaped(item.term)).append("\\fR\n").append(man_line(item.text));
  }
}

}  // namespace

std::string plain_text(const Section& section) {
  std::string text;
  if (!section.title.empty()) text.append(section.title).append(":\n");
  append_paragraphs(text, section.text);
  for (const Item& item : section.items) {
    text.append("  ").append(item.term).append("\n");
    append_filled(text, item.text, kItemIndent);
  }
  return text;
}

std::string plain_text(const Page& page) {
  std::string text;
  for (const std::string& line : page.usage) {
    text.append(text.empty() ? "Usage: " : "       ").append(line).append("\n");
  }
  for (const Section& section : page.sections) text.append("\n").append(plain_text(section));
  return text;
}

std::string man_page(const Page& page, std::string_view version) {
  std::string text = ".TH \"" + escaped(upper(page.name)) + "\" \"1\" \"\" \"ddprun " +
                     escaped(version) + "\" \"User Commands\"\n.nh\n.ad l\n.SH \"NAME\"\n" +
                     escaped(page.name) + " \\- " + escaped(page.summary) +
                     "\n.SH \"SYNOPSIS\"\n.nf\n";
  for (const std::string& line : page.usage) text += man_line(line);
  text += ".fi\n";
  for (const Section& section : page.sections) append_man_section(text, section);
  return text;
}

}  // namespace ddprun::cli
