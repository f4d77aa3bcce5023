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

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/call_queue.h"
#include "collectives/backends/collective_call.h"
#include "collectives/backends/gloo/call_exchange.h"
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

/// Every call begins with a GlooCallExchange, in which each rank sends every other the call that it
/// makes: Gloo itself does not detect that ranks make different calls, and would hang, or mix up
/// their data. Small data goes with that exchange, which then is all of the call. Large data
/// follows with GlooPairwiseExchange, once the calls are known to agree.
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
  void run_guarded(const Call& call, F work);
  template <class F>
  void exchange_and(const Task& task, F rest);
  void exchange_call(const Call& call);
  std::string difference(const Call& call, int other) const;

  void broadcast(const Task& task);
  void move(const Task& task);
  void reduce(const Task& task);
  void collect_shares(const Task& task, const std::vector<Share>& shares, const char* mine);
  void fail(const Error& error) noexcept;
  void fail_collectives(const Error& error) noexcept;
  Error agree_on_thrown(const std::string& where, const std::exception& thrown);
  std::optional<Error> failure();
  void disconnect();

  ExchangePayload& payload(int rank) { return payloads_[static_cast<std::size_t>(rank)]; }

  GroupContext context_;
  std::mutex mutex_;  // of failure_, and of the pointer mesh_
  std::optional<Error> failure_;
  std::unique_ptr<GlooMesh> mesh_;
  std::unique_ptr<GlooCallExchange> exchange_;
  std::unique_ptr<GlooPairwiseExchange> pairwise_;
  std::unique_ptr<GlooReduce> reduce_;
  std::unique_ptr<GlooMessages> messages_;
  std::vector<ExchangePayload> payloads_;  // of the next call, by rank
  std::vector<char> scratch_;
  std::uint64_t calls_ = 0;
  // The last member, so that it is destroyed first: it uses the others.
  CallQueue queue_{[this](const Task& task) { perform(task); }};
};

bool is_small(std::size_t bytes) {
  return bytes <= GlooCallExchange::kLimit;
}

GlooBackend::GlooBackend(GroupContext context)
    : context_(std::move(context)), payloads_(static_cast<std::size_t>(context_.size)) {
  const SigpipeBlocked blocked;  // Gloo's thread inherits it
  try {
    mesh_ = std::make_unique<GlooMesh>(context_);
    exchange_ = std::make_unique<GlooCallExchange>(*mesh_);
    pairwise_ = std::make_unique<GlooPairwiseExchange>(*mesh_);
    reduce_ = std::make_unique<GlooReduce>(*mesh_, *exchange_, *pairwise_);
    messages_ = std::make_unique<GlooMessages>(
        context_, *mesh_, [this](const Error& error) { fail_collectives(error); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw own_error(context_, ErrorKind::system,
                    " could not connect to every other rank from " + context_.address + ": " +
                        gloo_message(failure));
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
    // A barrier: else the end of our connections could overtake data that another rank waits for.
    queue_.run({.operation = Operation::leave});
  } catch (const std::exception&) {
    // A rank that still needs the group gets the error from its own next call.
  }
}

void GlooBackend::abort() noexcept {
  fail(own_error(context_, ErrorKind::system, " gave up the group"));
}

/// Makes all that is under way fail with this error, or with the first one if there was one.
void GlooBackend::fail(const Error& error) noexcept {
  fail_collectives(error);
  messages_->fail(error);
}

void GlooBackend::fail_collectives(const Error& error) noexcept {
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
  exchange_and(task, [&] { pairwise_->broadcast(static_cast<char*>(task.out), bytes, task.root); });
}

/// Every block is sent directly from the rank that has it to the one that gets it.
void GlooBackend::move(const Task& task) {
  Task copied = task;
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const Route route(copied, context_.rank, context_.size);
  for (int other = 0; other < context_.size; ++other) {
    const auto out = route.to(other);
    payload(other) = {out.data, is_small(out.bytes) ? out.bytes : 0, out.bytes / route.width(),
                      route.from(other).bytes / route.width()};
  }
  exchange_and(task, [&] {
    if (swaps &&
        task.in == task.out) {  // in place: received data must not overwrite what is yet to be sent
      const Blocks all(task.send_counts, task.count, context_.size);
      const char* const in = static_cast<const char*>(task.in);
      scratch_.assign(in, in + all.total() * route.width());
      copied.in = scratch_.data();
    }
    const auto own = route.to(context_.rank);
    const auto own_out = route.from(context_.rank);
    if (own_out.bytes > 0 && own_out.data != own.data) {
      std::memmove(own_out.data, own.data, own.bytes);
    };
    for (int other = 0; other < context_.size; ++other) {
      const auto in = route.from(other);
      if (other == context_.rank || in.bytes == 0 || !is_small(in.bytes)) continue;
      std::memcpy(in.data, exchange_->data_of(other), in.bytes);
    }
    pairwise_->exchange(
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

/// Small data is sent whole to every rank that gets the result, and combined there. Of large data
/// each rank combines one share, and the shares are collected afterwards: Rabenseifner's
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
  exchange_and(task, [&] {
    const Reduction reduction = internal::reduction(task.type, task.reduce);
    char* out = static_cast<char*>(task.out);
    if (collects && out != nullptr) out += mine.begin * width;
    if (collects && out == nullptr) {  // not the root: its share is only forwarded
      scratch_.resize(mine.count * width);
      out = scratch_.data();
    }
    reduce_->run(reduction, width, in, shares, out);
    if (collects) collect_shares(task, shares, out);
  });
}

/// Sends each rank's combined share to all ranks, or to the root.
void GlooBackend::collect_shares(const Task& task, const std::vector<Share>& shares,
                                 const char* mine) {
  const std::size_t width = size_of(task.type);
  const auto gets = [&](int rank) {
    return task.operation == Operation::all_reduce || rank == task.root;
  };
  pairwise_->exchange(
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

/// Runs one call: exchanges call and payloads with every rank, then does the `rest`.
template <class F>
void GlooBackend::exchange_and(const Task& task, F rest) {
  const Call call = collective_call(context_, task, ++calls_);
  run_guarded(call, [&] {
    exchange_call(call);
    rest();
  });
}

/// A failure of `work` is agreed on by all ranks and fails the group.
template <class F>
void GlooBackend::run_guarded(const Call& call, F work) {
  const SigpipeBlocked blocked;
  if (const auto error = failure()) throw Error(*error);
  try {
    return work();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::bad_alloc&) {
    if (!failure()) {
      fail(agree_on(context_, "in " + describe(call), ErrorKind::system,
                    "has no memory left in " + describe(call)));
    }
  } catch (const std::exception& thrown) {
    // If there is a failure already, abort() or the messages closed the connections because of it.
    if (!failure()) {
      fail(agree_on_thrown("in " + describe(call), thrown));
    }
  }
  disconnect();
  throw Error(*failure());
}

/// Gloo's exceptions have no kinds: whether it timed out shows in the text alone.
Error GlooBackend::agree_on_thrown(const std::string& where, const std::exception& thrown) {
  const std::string text = gloo_message(thrown);
  const bool timed_out =
      text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  return timed_out ? agree_on_timeout(context_, where, mesh_->partner())
                   : agree_on_loss(context_, where, mesh_->partner(), text);
}

void GlooBackend::exchange_call(const Call& call) {
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
  pairwise_.reset();
  exchange_.reset();
  const std::lock_guard lock(mutex_);
  mesh_.reset();
}

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(GroupContext context) {
  return std::make_unique<GlooBackend>(std::move(context));
}

}  // namespace ddp::internal
