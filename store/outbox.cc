// SPDX-License-Identifier: Apache-2.0
#include "store/outbox.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun::store {
namespace {

// From this size on, holding a value is cheaper than copying it.
constexpr std::size_t kHeldFrom = 4 << 10;

// An idle client keeps so much for its next reply.
constexpr std::size_t kKeptForReply = 4 << 10;

// Copied bytes go into pieces of about this size. Each is freed once it is sent, even if the client
// never reads the rest.
constexpr std::size_t kPiece = 64 << 10;

// When so many pieces are sent, they are removed from the list at once.
constexpr std::size_t kSentPieces = 64;

}  // namespace

void Outbox::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (pieces_.empty() || pieces_.back().value || pieces_.back().bytes.size() >= kPiece) {
    pieces_.emplace_back();
  }
  pieces_.back().bytes.append(bytes);
  size_ += bytes.size();
  copied_ += bytes.size();
}

void Outbox::append(const std::shared_ptr<const std::string>& value) {
  if (value->size() < kHeldFrom) return append(std::string_view(*value));
  pieces_.push_back({{}, value});
  size_ += value->size();
  held_ += value->size();
}

void Outbox::append(Outbox&& later) {
  for (Piece& piece : later.pieces_) {
    size_ += piece.view().size();
    count(piece);
    pieces_.push_back(std::move(piece));
  }
  later = {};
}

std::size_t Outbox::pieces(std::string_view* pieces, std::size_t most) const {
  const std::size_t count = std::min(most, pieces_.size() - first_);
  for (std::size_t i = 0; i < count; ++i) pieces[i] = pieces_[first_ + i].view();
  if (count > 0) pieces[0].remove_prefix(sent_);
  return count;
}

void Outbox::drop(std::size_t count) {
  size_ -= count;
  if (size_ == 0) return clear();
  sent_ += count;
  while (sent_ >= pieces_[first_].view().size()) {
    sent_ -= pieces_[first_].view().size();
    discount(pieces_[first_]);
    pieces_[first_++] = {};
  }
  if (first_ < kSentPieces) return;
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

void Outbox::clear() {
  if (pieces_.size() > 1 || pieces_[0].value || pieces_[0].bytes.capacity() > kKeptForReply) {
    pieces_ = {};
  } else {
    pieces_[0].bytes.clear();
  }
  first_ = sent_ = copied_ = held_ = 0;
}

}  // namespace ddprun::store
