// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/log_piece.h"

#include <climits>
#include <utility>

#include "base/json.h"
#include "rendezvous/wire/fields.h"

namespace ddprun::agent::ask {
namespace {

constexpr size_t kMostFiles = 2;  // stdout and stderr

/// The number of bytes at the end that begin a UTF-8 character but do not complete it.
size_t unfinished_end(std::string_view bytes) {
  for (size_t count = 1; count <= 3 && count < bytes.size(); ++count) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - count]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t length = byte >= 0xf8   ? 1
                          : byte >= 0xf0 ? 4
                          : byte >= 0xe0 ? 3
                          : byte >= 0xc0 ? 2
                                         : 1;
    return length > count ? count : 0;
  }
  return 0;
}

}  // namespace

LogPiece log_piece(int rank, int round, std::uint64_t from, std::string bytes) {
  bytes.resize(bytes.size() - unfinished_end(bytes));
  const std::uint64_t next = from + bytes.size();
  return {rank, round, from, next, std::move(bytes), {}};
}

std::string to_json(const LogPiece& piece) {
  const Json object = {{"rank", piece.rank}, {"round", piece.round}, {"from", piece.from},
                       {"next", piece.next}, {"text", piece.text},   {"files", piece.files}};
  return json_text(object);
}

Result<LogPiece> log_piece_in(std::string_view text) {
  const auto object = parse_bounded(text);
  if (!object.is_object()) return Error{Errc::protocol, "it is no JSON object"};
  rendezvous::Fields fields(object);
  LogPiece piece;
  piece.rank = fields.integer("rank", 0, INT_MAX);
  piece.round = fields.integer("round", 0, INT_MAX);
  piece.from = fields.count("from");
  piece.next = fields.count("next");
  piece.text = fields.text("text", 3 * kMaxPiece);
  for (const Json& file : fields.list("files", kMostFiles)) {
    if (!file.is_string()) fields.refuse("files");
    if (file.is_string()) piece.files.push_back(file.get<std::string>());
  }
  return fields.or_error(std::move(piece));
}

}  // namespace ddprun::agent::ask
