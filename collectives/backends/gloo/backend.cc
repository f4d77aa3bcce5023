// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/backend.h"

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/backends/call_queue.h"
#include "collectives/backends/gloo/agreed_error.h"
#include "collectives/backends/gloo/exchange.h"
#include "collectives/backends/gloo/mesh.h"
#include "collectives/backends/gloo/messages.h"
#include "collectives/backends/gloo/pairwise_exchange.h"
#include "collectives/backends/gloo/reduce.h"
#include "collectives/backends/gloo/sigpipe.h"
#include "collectives/backends/host_memory.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

/// Every call begins with an exchange: each rank tells every other which call it makes, so that a
/// call that differs is told before large data moves. What one rank has for another travels along
/// if it is small, and then one step is all; what is large follows in turns.
class GlooBackend : public Backend {
 public:
  explicit GlooBackend(GroupContext context);

  void check(const Task& task) const override {
    check_in_host_memory(task, "gloo", context_.named(context_.rank));
  }
  void run(const Task& task) override;
  std::shared_ptr<AsyncCall> begin(const Task& task) override;
  void abort() noexcept override;
  void leave() noexcept override;

 private:
  void perform(const Task& task);
  template <class F>
  void guarded(const Call& call, F work);
  template <class F>
  void agree_and(const Task& task, F rest);
  void agree(const Call& call);
  std::string difference(const Call& call, int other) const;

  void broadcast(const Task& task);
  void move(const Task& task);
  void reduce(const Task& task);
  void collect_shares(const Task& task, const std::vector<Share>& shares, const char* mine);
  void break_up(const Error& error) noexcept;
  void break_mesh(const Error& error) noexcept;
  std::optional<Error> failure();
  void disconnect();

  ExchangePayload& payload(int rank) { return payloads_[static_cast<std::size_t>(rank)]; }

  GroupContext context_;
  std::mutex mutex_;  // of the first failure, and of the pointer to the mesh for whoever aborts
  std::optional<Error> failure_;
  std::unique_ptr<GlooMesh> mesh_;
  std::unique_ptr<GlooExchange> exchange_;
  std::unique_ptr<GlooPairwiseExchange> turns_;
  std::unique_ptr<GlooReduce> reduce_;
  std::unique_ptr<GlooMessages> messages_;
  std::vector<ExchangePayload> payloads_;  // of the call to come, by rank
  std::vector<char> scratch_;
  std::uint64_t calls_ = 0;
  CallQueue queue_{[this](const Task& task) { perform(task); }};  // ends before what it uses
};

bool is_small(std::size_t bytes) {
  return bytes <= GlooExchange::kLimit;
}

GlooBackend::GlooBackend(GroupContext context)
    : context_(std::move(context)), payloads_(static_cast<std::size_t>(context_.size)) {
  const SigpipeBlocked blocked;  // and so in Gloo's thread
  try {
    mesh_ = std::make_unique<GlooMesh>(context_);
    exchange_ = std::make_unique<GlooExchange>(*mesh_);
    turns_ = std::make_unique<GlooPairwiseExchange>(*mesh_);
    reduce_ = std::make_unique<GlooReduce>(*mesh_, *exchange_, *turns_);
    messages_ = std::make_unique<GlooMessages>(context_, *mesh_,
                                               [this](const Error& error) { break_mesh(error); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::system, "ddp: rank " + std::to_string(context_.named(context_.rank)) +
                                       " could not connect to every other rank from " +
                                       context_.address + ": " + what_gloo_says(failure));
  }
}

void GlooBackend::run(const Task& task) {
  if (is_point_to_point(task.operation)) return messages_->begin(task)->wait();
  queue_.run(task);
}

std::shared_ptr<AsyncCall> GlooBackend::begin(const Task& task) {
  return is_point_to_point(task.operation) ? messages_->begin(task) : queue_.begin(task);
}

void GlooBackend::perform(const Task& task) {
  if (reduces(task.operation)) return reduce(task);
  if (task.operation == Operation::broadcast) return broadcast(task);
  move(task);
}

void GlooBackend::leave() noexcept {
  try {
    messages_->finish();
    // Without it the end of our connections could overtake data another rank still waits for.
    queue_.run({.operation = Operation::leave});
  } catch (const std::exception&) {
    // Whoever still needs the group is told by its own next call.
  }
}

void GlooBackend::abort() noexcept {
  break_up(Error(ErrorKind::system, "ddp: rank " + std::to_string(context_.named(context_.rank)) +
                                        " gave up the group"));
}

/// Whatever is under way ends with this error, which is the group's unless another came before.
void GlooBackend::break_up(const Error& error) noexcept {
  break_mesh(error);
  messages_->fail(error);
}

void GlooBackend::break_mesh(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  if (mesh_) mesh_->abort();
}

std::optional<Error> GlooBackend::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void GlooBackend::broadcast(const Task& task) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (is_small(bytes)) return move(task);
  payloads_.assign(payloads_.size(), {});
  agree_and(task, [&] { turns_->broadcast(static_cast<char*>(task.out), bytes, task.root); });
}

/// Every block goes straight from the rank that has it to the one that gets it.
void GlooBackend::move(const Task& task) {
  Task apart = task;
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const Route route(apart, context_.rank, context_.size);
  for (int other = 0; other < context_.size; ++other) {
    const auto out = route.to(other);
    payload(other) = {out.data, is_small(out.bytes) ? out.bytes : 0, out.bytes / route.width(),
                      route.from(other).bytes / route.width()};
  }
  agree_and(task, [&] {
    if (swaps && task.in == task.out) {  // what arrives must not replace what is yet to be sent
      const Blocks all(task.send_counts, task.count, context_.size);
      const char* const in = static_cast<const char*>(task.in);
      scratch_.assign(in, in + all.total() * route.width());
      apart.in = scratch_.data();
    }
    const auto own = route.to(context_.rank);
    const auto place = route.from(context_.rank);
    if (place.bytes > 0 && place.data != own.data) std::memmove(place.data, own.data, own.bytes);
    for (int other = 0; other < context_.size; ++other) {
      const auto in = route.from(other);
      if (other == context_.rank || in.bytes == 0 || !is_small(in.bytes)) continue;
      std::memcpy(in.data, exchange_->data_of(other), in.bytes);
    }
    turns_->exchange(
        [&](int other) {
          const auto out = route.to(other);
          return is_small(out.bytes) ? GlooPairwiseExchange::Outgoing{} : out;
        },
        [&](int other) {
          const auto in = route.from(other);
          return is_small(in.bytes) ? GlooPairwiseExchange::Incoming{} : in;
        });
  });
}

/// Small data of one rank goes whole to everyone who wants the result, and everyone combines it.
/// Of large data each rank combines one share, and the shares are collected after: Rabenseifner's
/// algorithm (Thakur, Rabenseifner, Gropp 2005, 3.4 and 3.5), whose 2 (n-1)/n times the data for
/// all_reduce is the least that can be (Patarasuk, Yuan: Bandwidth Optimal All-reduce Algorithms
/// for Clusters of Workstations, 2009).
void GlooBackend::reduce(const Task& task) {
  const std::size_t width = size_of(task.type);
  const bool scatters =
      task.operation == Operation::reduce_scatter || task.operation == Operation::reduce_scatter_v;
  const bool collects = !scatters && !is_small(task.count * width);
  const Blocks blocks = collects ? Blocks::even(task.count, context_.size)
                                 : Blocks(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  std::vector<Share> shares(static_cast<std::size_t>(context_.size));
  for (int rank = 0; rank < context_.size; ++rank) {
    Share& share = shares[static_cast<std::size_t>(rank)];
    const bool wants = task.operation == Operation::all_reduce || rank == task.root;
    if (scatters || collects) {
      share = {blocks.begin(rank), blocks.count(rank)};
    } else if (wants) {
      share = {0, task.count};
    }
  }
  const Share& mine = shares[static_cast<std::size_t>(context_.rank)];
  for (int rank = 0; rank < context_.size; ++rank) {
    const Share& share = shares[static_cast<std::size_t>(rank)];
    const std::size_t bytes = share.count * width;
    payload(rank) = {in + share.begin * width, is_small(bytes) ? bytes : 0, share.count,
                     mine.count};
  }
  agree_and(task, [&] {
    const Reduction reduction = internal::reduction(task.type, task.reduce);
    char* out = static_cast<char*>(task.out);
    if (collects && out != nullptr) out += mine.begin * width;
    if (collects && out == nullptr) {  // not the root: only a share on its way there
      scratch_.resize(mine.count * width);
      out = scratch_.data();
    }
    reduce_->run(reduction, width, in, shares, out);
    if (collects) collect_shares(task, shares, out);
  });
}

/// To everyone, or to the root.
void GlooBackend::collect_shares(const Task& task, const std::vector<Share>& shares,
                                 const char* mine) {
  const std::size_t width = size_of(task.type);
  const auto gets = [&](int rank) {
    return task.operation == Operation::all_reduce || rank == task.root;
  };
  turns_->exchange(
      [&](int other) {
        const Share& share = shares[static_cast<std::size_t>(context_.rank)];
        return gets(other) ? GlooPairwiseExchange::Outgoing{mine, share.count * width}
                           : GlooPairwiseExchange::Outgoing{};
      },
      [&](int other) {
        if (!gets(context_.rank)) return GlooPairwiseExchange::Incoming{};
        const Share& share = shares[static_cast<std::size_t>(other)];
        return GlooPairwiseExchange::Incoming{static_cast<char*>(task.out) + share.begin * width,
                                              share.count * width};
      });
}

/// Runs one call: exchanges payloads with everyone, then does the `rest`.
template <class F>
void GlooBackend::agree_and(const Task& task, F rest) {
  Call call{.number = ++calls_, .root = context_.named(task.root), .operation = task.operation};
  call.count = is_unequal(task.operation) ? 0 : task.count;
  call.type = static_cast<std::uint8_t>(task.type);
  call.reduce = static_cast<std::uint8_t>(task.reduce);
  guarded(call, [&] {
    agree(call);
    rest();
  });
}

/// What fails breaks the group, and is told to all.
template <class F>
void GlooBackend::guarded(const Call& call, F work) {
  const SigpipeBlocked blocked;
  if (const auto error = failure()) throw Error(*error);
  try {
    return work();
  } catch (const Error& error) {
    break_up(error);
  } catch (const std::bad_alloc&) {
    if (!failure()) {
      break_up(agree_on(context_, "in " + describe(call), ErrorKind::system,
                        "has no memory left in " + describe(call)));
    }
  } catch (const std::exception& thrown) {
    // Who breaks the connections under our hands has said why.
    if (!failure()) {
      break_up(agree_on_failure(context_, "in " + describe(call), mesh_->partner(), thrown));
    }
  }
  disconnect();
  throw Error(*failure());
}

void GlooBackend::agree(const Call& call) {
  const std::optional<int> other = exchange_->run(call, payloads_);
  if (!other) return;
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch, difference(call, *other));
}

std::string GlooBackend::difference(const Call& call, int other) const {
  const std::string start = "is at " + describe(call);
  const Call theirs = exchange_->call_of(other);
  if (theirs != call)
    return start + ", but " + name_ranks({context_.named(other)}) + " is at " + describe(theirs);
  const ExchangePayload& ours = payloads_[static_cast<std::size_t>(other)];
  if (exchange_->sends_of(other) != ours.expects) {
    return start + " and expects " + std::to_string(ours.expects) + " elements of " +
           name_ranks({context_.named(other)}) + ", which sends " +
           std::to_string(exchange_->sends_of(other));
  }
  return start + " and sends " + std::to_string(ours.sends) + " elements to " +
         name_ranks({context_.named(other)}) + ", which expects " +
         std::to_string(exchange_->expects_of(other));
}

void GlooBackend::disconnect() {
  reduce_.reset();
  turns_.reset();
  exchange_.reset();
  const std::lock_guard lock(mutex_);
  mesh_.reset();
}

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(GroupContext context) {
  return std::make_unique<GlooBackend>(std::move(context));
}

}  // namespace ddp::internal
