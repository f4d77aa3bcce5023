// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_ring.h"

#include <memory>
#include <vector>

#include <gloo/transport/buffer.h>

#include "collectives/call.h"

namespace ddp::internal {
namespace {

using GlooBuffer = std::unique_ptr<gloo::transport::Buffer>;

// The exchange has slot 0. A message that is to be combined arrives beside the data, a final one
// in its place.
constexpr int kPartial = 1;
constexpr int kFinal = 2;

/// Bytes. Any connection takes one piece without waiting for the reader, so ranks that all write
/// first cannot block each other. With Gloo's header it is just under two segments of the loopback
/// device (65,483 bytes each): a short third one would cost the reader one more wake-up.
constexpr std::size_t kPiece = 126 << 10;

/// A buffer cut into pieces as even as elements allow.
class Pieces {
 public:
  Pieces(Buffer buffer, std::size_t parts)
      : count_(buffer.count), width_(size_of(buffer.type)), parts_(parts) {}

  std::size_t begin(std::size_t piece) const { return count_ * piece / parts_ * width_; }
  std::size_t length(std::size_t piece) const { return begin(piece + 1) - begin(piece); }
  std::size_t elements(std::size_t piece) const { return length(piece) / width_; }
  std::size_t longest() const { return (count_ / parts_ + 1) * width_; }

 private:
  std::size_t count_;
  std::size_t width_;
  std::size_t parts_;
};

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

}  // namespace

void GlooRing::broadcast(Buffer buffer, int root) {
  const std::size_t bytes = buffer.count * size_of(buffer.type);
  const bool receives = mesh_.rank() != root;
  const bool sends = next() != root;
  GlooBuffer from;
  GlooBuffer to;
  if (receives) from = mesh_.pair(previous()).createRecvBuffer(kFinal, buffer.data, bytes);
  if (sends) to = mesh_.pair(next()).createSendBuffer(kFinal, buffer.data, bytes);
  const std::size_t count = divide_up(bytes, kPiece);
  const Pieces pieces(buffer, count);
  for (std::size_t piece = 0; piece < count; ++piece) {
    if (receives) {
      mesh_.turn_to(previous());
      from->waitRecv();
    }
    if (sends) {
      mesh_.turn_to(next());
      to->send(pieces.begin(piece), pieces.length(piece), pieces.begin(piece));
      to->waitSend();
    }
  }
}

void GlooRing::all_reduce(Buffer buffer, Reduction reduce) {
  const auto rank = static_cast<std::size_t>(mesh_.rank());
  const auto size = static_cast<std::size_t>(mesh_.size());
  const std::size_t bytes = buffer.count * size_of(buffer.type);
  const std::size_t per_chunk = divide_up(bytes, size * kPiece);
  const Pieces pieces(buffer, size * per_chunk);
  char* const data = static_cast<char*>(buffer.data);
  std::vector<char> part(pieces.longest());

  auto& next_pair = mesh_.pair(next());
  auto& previous_pair = mesh_.pair(previous());
  const GlooBuffer partial_to = next_pair.createSendBuffer(kPartial, data, bytes);
  const GlooBuffer final_to = next_pair.createSendBuffer(kFinal, data, bytes);
  const GlooBuffer partial_from =
      previous_pair.createRecvBuffer(kPartial, part.data(), part.size());
  const GlooBuffer final_from = previous_pair.createRecvBuffer(kFinal, data, bytes);

  // Of the chunks, one for each rank, each step moves one from every rank to the next, by piece;
  // which is sent in a step was received in the step before.
  const std::size_t collecting = (size - 1) * per_chunk;
  const auto piece_of = [&](std::size_t turn, std::size_t first_chunk) {
    const std::size_t step = turn / per_chunk;
    return (first_chunk + 2 * size - step) % size * per_chunk + turn % per_chunk;
  };
  for (std::size_t turn = 0; turn < 2 * collecting; ++turn) {
    const bool final = turn >= collecting;
    const std::size_t mine = piece_of(turn, rank);
    if (pieces.length(mine) > 0) {
      mesh_.turn_to(next());
      auto& to = final ? *final_to : *partial_to;
      to.send(pieces.begin(mine), pieces.length(mine), final ? pieces.begin(mine) : 0);
      to.waitSend();
    }
    const std::size_t theirs = piece_of(turn, rank + size - 1);
    if (pieces.length(theirs) == 0) continue;
    mesh_.turn_to(previous());
    (final ? *final_from : *partial_from).waitRecv();
    if (final) continue;
    char* const sum = data + pieces.begin(theirs);
    reduce(sum, part.data(), sum, pieces.elements(theirs));
  }
}

}  // namespace ddp::internal
