// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ddprun {

/// A table in a header's comment, such as an automaton's. Cells stand between '|'; the first begins
/// with "event \". A line that is indented deeper than the first cell continues the row above.
struct CommentTable {
  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

namespace comment_table {

inline std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream rest(line.substr(line.find_first_not_of('/')));
  for (std::string cell; std::getline(rest, cell, '|');) cells.push_back(cell);
  return cells;
}

inline void append(std::string& text, const std::string& more) {
  const std::string words = trimmed(more);
  text += (text.empty() || words.empty() ? "" : " ") + words;
}

}  // namespace comment_table

/// The table of the file at `path`; has no rows if there is no table.
inline CommentTable read_comment_table(const std::string& path) {
  using namespace comment_table;
  CommentTable table;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line) && line.find(" event \\ ") == std::string::npos) continue;
  const std::vector<std::string> header = line.empty() ? std::vector<std::string>() : cells(line);
  for (size_t i = 1; i < header.size(); ++i) table.columns.push_back(trimmed(header[i]));
  const size_t indent = header.empty() ? 0 : header[0].find_first_not_of(' ');

  std::getline(file, line);  // the line under the header
  while (std::getline(file, line) && line.find('|') != std::string::npos) {
    const std::vector<std::string> pieces = cells(line);
    if (pieces[0].find_first_not_of(' ') == indent) table.rows.emplace_back();
    if (table.rows.empty()) break;
    CommentTable::Row& row = table.rows.back();
    append(row.name, pieces[0]);
    row.cells.resize(table.columns.size());
    for (size_t i = 1; i < pieces.size() && i <= row.cells.size(); ++i) {
      append(row.cells[i - 1], pieces[i]);
    }
  }
  return table;
}

}  // namespace ddprun
