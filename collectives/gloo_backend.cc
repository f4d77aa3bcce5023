// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend.h"

#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/call.h"
#include "collectives/failure.h"
#include "collectives/gloo_backend_exchange.h"
#include "collectives/gloo_backend_mesh.h"
#include "collectives/gloo_backend_ring.h"
#include "collectives/gloo_backend_verdict.h"
#include "collectives/reduction.h"
#include "collectives/sigpipe.h"

namespace ddp::internal {
namespace {

/// Every call begins with an exchange: each rank tells every other which call it makes, so that a
/// call that differs is told before large data moves. Small data travels along, and then that is
/// all; large data follows around the ring.
class GlooBackend : public Backend {
 public:
  explicit GlooBackend(Meeting meeting);

  void broadcast(Buffer buffer, int root) override;
  void all_reduce(Buffer buffer, ReduceOp op) override;
  void barrier() override;
  void leave() noexcept override;

 private:
  template <class F>
  void perform(Call call, std::string_view data, F rest);
  void combine_exchanged(Buffer buffer, Reduction reduce);
  void disconnect();

  Meeting meeting_;
  std::unique_ptr<GlooMesh> mesh_;
  std::unique_ptr<GlooExchange> exchange_;
  std::uint64_t calls_ = 0;
};

std::size_t bytes_of(Buffer buffer) {
  return buffer.count * size_of(buffer.type);
}

std::string_view view(Buffer buffer) {
  return {static_cast<const char*>(buffer.data), bytes_of(buffer)};
}

bool is_small(Buffer buffer) {
  return bytes_of(buffer) <= GlooExchange::kLimit;
}

GlooBackend::GlooBackend(Meeting meeting) : meeting_(std::move(meeting)) {
  const SigpipeBlocked blocked;  // and so in Gloo's thread
  try {
    mesh_ = std::make_unique<GlooMesh>(meeting_);
    exchange_ = std::make_unique<GlooExchange>(*mesh_);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::system, "ddp: rank " + std::to_string(meeting_.rank) +
                                       " could not connect to every other rank from " +
                                       meeting_.address + ": " + what_gloo_says(failure));
  }
}

void GlooBackend::broadcast(Buffer buffer, int root) {
  Call call{.operation = Operation::broadcast};
  call.count = buffer.count;
  call.root = root;
  call.type = static_cast<std::uint8_t>(buffer.type);
  const bool small = is_small(buffer);
  const bool mine = root == meeting_.rank;
  perform(call, small && mine ? view(buffer) : "", [&] {
    if (!small) return GlooRing(*mesh_).broadcast(buffer, root);
    if (!mine && buffer.count > 0) {
      std::memcpy(buffer.data, exchange_->data_of(root), bytes_of(buffer));
    }
  });
}

void GlooBackend::all_reduce(Buffer buffer, ReduceOp op) {
  Call call{.operation = Operation::all_reduce};
  call.count = buffer.count;
  call.type = static_cast<std::uint8_t>(buffer.type);
  call.reduce = static_cast<std::uint8_t>(op);
  const bool small = is_small(buffer);
  const Reduction reduce = reduction(buffer.type, op);
  perform(call, small ? view(buffer) : "", [&] {
    if (!small) return GlooRing(*mesh_).all_reduce(buffer, reduce);
    if (buffer.count > 0) combine_exchanged(buffer, reduce);
  });
  if (op == ReduceOp::mean) divide(buffer, meeting_.size);
}

void GlooBackend::barrier() {
  perform(Call{.operation = Operation::barrier}, "", [] {});
}

void GlooBackend::leave() noexcept {
  try {
    // Without it the end of our connections could overtake data another rank still waits for.
    perform(Call{.operation = Operation::leave}, "", [] {});
  } catch (const std::exception&) {
    // Whoever still needs the group is told by its own next call.
  }
}

/// Combines everyone's data in the order of ranks, so that all end with the same bits.
void GlooBackend::combine_exchanged(Buffer buffer, Reduction reduce) {
  const std::vector<char> own(view(buffer).begin(), view(buffer).end());
  const auto part = [&](int rank) {
    return rank == meeting_.rank ? own.data() : exchange_->data_of(rank);
  };
  std::memcpy(buffer.data, part(0), own.size());
  for (int rank = 1; rank < meeting_.size; ++rank) {
    reduce(buffer.data, buffer.data, part(rank), buffer.count);
  }
}

/// Runs one call: exchanges `data` with everyone, then does the `rest`.
template <class F>
void GlooBackend::perform(Call call, std::string_view data, F rest) {
  const SigpipeBlocked blocked;
  call.number = ++calls_;
  try {
    const std::optional<int> other = exchange_->run(call, data);
    if (other) {
      throw agree_on(meeting_, "in " + describe(call), ErrorKind::mismatch,
                     "is at " + describe(call) + ", but " + name_ranks({*other}) + " is at " +
                         describe(exchange_->call_of(*other)));
    }
    rest();
  } catch (const Error&) {
    disconnect();
    throw;
  } catch (const std::exception& failure) {
    const Error error =
        agree_on_failure(meeting_, "in " + describe(call), mesh_->partner(), failure);
    disconnect();
    throw error;
  }
}

void GlooBackend::disconnect() {
  exchange_.reset();
  mesh_.reset();
}

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(Meeting meeting) {
  return std::make_unique<GlooBackend>(std::move(meeting));
}

}  // namespace ddp::internal
