// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_transfers.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "collectives/call.h"

namespace ddp::internal {
namespace {

struct Piece {
  char* data = nullptr;
  std::size_t bytes = 0;
};

/// One direction between two ranks.
struct Line {
  std::uint64_t digest = 0;  ///< of tags, types and counts, in order; both sides have the same
  std::size_t bytes = 0;
  std::vector<Piece> pieces;

  /// FNV-1a (Fowler, Noll, Vo), over whole numbers.
  void mix(std::uint64_t value) { digest = (digest ^ value) * 0x100000001b3U; }

  void add(const Transfer& transfer) {
    if (digest == 0) digest = 0xcbf29ce484222325U;
    mix(static_cast<std::uint32_t>(transfer.tag));
    mix(static_cast<std::uint64_t>(transfer.type));
    mix(transfer.count);
    const std::size_t length = transfer.count * size_of(transfer.type);
    for (std::size_t at = 0; at < length; at += GlooTurns::kPiece) {
      pieces.push_back(
          {static_cast<char*>(transfer.data) + at, std::min(GlooTurns::kPiece, length - at)});
    }
    bytes += length;
  }

  /// Whether all of it comes with the greeting.
  bool travels_along() const { return pieces.size() == 1 && bytes <= GlooExchange::kLimit; }
};

}  // namespace

struct GlooTransfers::Pair {
  Line out;
  Line in;

  Pair(const Task& task, int other) {
    std::vector<Transfer> by_tag;
    std::ranges::copy_if(task.transfers, std::back_inserter(by_tag),
                         [&](const Transfer& transfer) { return transfer.peer == other; });
    std::ranges::stable_sort(by_tag, {}, &Transfer::tag);  // so both sides have one order
    for (const Transfer& transfer : by_tag) (transfer.sends ? out : in).add(transfer);
  }
};

Call GlooTransfers::call_with(int other, int named, const Task& task) const {
  Call call{.number = calls_[static_cast<std::size_t>(other)], .root = named};
  call.operation = task.operation;
  for (const Transfer& transfer : task.transfers) {
    if (transfer.peer != other) continue;
    call.tag = transfer.tag;
    call.type = static_cast<std::uint8_t>(transfer.type);
    call.count = transfer.count;
  }
  if (task.operation == Operation::batch_send_recv) {
    call.count = static_cast<std::uint64_t>(std::ranges::count(
        task.transfers, other, [](const Transfer& transfer) { return transfer.peer; }));
  }
  return call;
}

bool GlooTransfers::fits(int other, const Pair& pair) const {
  const Call theirs = exchange_.call_of(other);
  return is_point_to_point(theirs.operation) &&
         theirs.number == calls_[static_cast<std::size_t>(other)] &&
         exchange_.sends_of(other) == pair.in.digest &&
         exchange_.expects_of(other) == pair.out.digest;
}

std::optional<int> GlooTransfers::run(const Task& task, const std::vector<int>& names) {
  std::vector<int> others;
  std::vector<Pair> pairs;
  std::size_t turns = 0;
  for (int step = 1; step < mesh_.size(); ++step) {
    const int other = (mesh_.rank() + step) % mesh_.size();
    const Pair& pair = pairs.emplace_back(task, other);
    if (pair.out.digest == 0 && pair.in.digest == 0) {
      pairs.pop_back();
      continue;
    }
    others.push_back(other);
    turns = std::max({turns, pair.out.pieces.size(), pair.in.pieces.size()});
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Line& out = pairs[i].out;
    Parcel parcel{.sends = out.digest, .expects = pairs[i].in.digest};
    if (out.travels_along()) {
      parcel.data = out.pieces.front().data;
      parcel.bytes = out.bytes;
    }
    ++calls_[static_cast<std::size_t>(others[i])];
    const int named = names[static_cast<std::size_t>(others[i])];
    exchange_.send(others[i], call_with(others[i], named, task), parcel);
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    exchange_.receive(others[i]);
    if (!fits(others[i], pairs[i])) return others[i];
    const Line& in = pairs[i].in;
    if (!in.travels_along()) continue;
    std::memcpy(in.pieces.front().data, exchange_.data_of(others[i]), in.bytes);
  }
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const auto piece = [&](const Line& line) {
      return turn < line.pieces.size() && !line.travels_along() ? line.pieces[turn] : Piece{};
    };
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Piece out = piece(pairs[i].out);
      turns_.send(others[i], out.data, out.bytes);
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Piece in = piece(pairs[i].in);
      turns_.receive(others[i], in.data, in.bytes);
    }
  }
  return std::nullopt;
}

}  // namespace ddp::internal
