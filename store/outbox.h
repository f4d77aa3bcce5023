// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store {

/// Bytes to send to one client. Large values are shared, not copied. Pure.
class Outbox {
 public:
  void append(std::string_view bytes);
  void append(const std::shared_ptr<const std::string>& value);

  /// Appends all of `later`, of which nothing has been sent, and empties it.
  void append(Outbox&& later);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// Memory for the copied bytes, including those of a partly sent piece.
  std::size_t copied() const { return copied_; }

  /// copied(), and the sizes of all values that it holds, even if others hold them, too.
  std::size_t memory() const { return copied_ + held_; }

  /// Visits the values that it holds.
  template <class Visit>
  void for_each_value(Visit visit) const {
    for (std::size_t i = first_; i < pieces_.size(); ++i) {
      if (pieces_[i].value) visit(pieces_[i].value);
    }
  }

  /// The next bytes, in order: fills `pieces` and returns how many there are. The views are valid
  /// until the next change.
  std::size_t pieces(std::string_view* pieces, std::size_t most) const;

  /// Drops the first `count` bytes, which have been sent.
  void drop(std::size_t count);

 private:
  struct Piece {
    std::string bytes;
    std::shared_ptr<const std::string> value;  // instead of bytes

    std::string_view view() const { return value ? *value : bytes; }
  };

  void clear();
  void count(const Piece& piece) { (piece.value ? held_ : copied_) += piece.view().size(); }
  void discount(const Piece& piece) { (piece.value ? held_ : copied_) -= piece.view().size(); }

  std::vector<Piece> pieces_;
  std::size_t first_ = 0;  // pieces before it are sent
  std::size_t sent_ = 0;   // bytes of the first piece
  std::size_t size_ = 0;
  std::size_t copied_ = 0;
  std::size_t held_ = 0;
};

}  // namespace ddprun::store
