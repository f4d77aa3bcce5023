// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "collectives/call.h"
#include "collectives/failure.h"
#include "collectives/gloo_backend_exchange.h"
#include "collectives/gloo_backend_store.h"
#include "collectives/reduction.h"
#include "collectives/sigpipe.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;

// Of a message that only finds out whether a connection still stands; Gloo's own slots begin with
// 1 to 8 in these bits.
constexpr std::uint64_t kProbeSlot = std::uint64_t{0x70} << 40;

/// What Gloo says, without the place in its source that it puts in front.
std::string what_gloo_says(const std::exception& failure) {
  const std::string text = failure.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

bool is_timeout(const std::string& failure) {
  return failure.find("imed out") != std::string::npos ||
         failure.find("imeout") != std::string::npos;
}

template <class Context>
void connect_all(Context& context, std::shared_ptr<GlooStore> store,
                 std::shared_ptr<gloo::transport::Device>& device) {
  // Newer releases of Gloo share the store.
  if constexpr (requires { context.connectFullMesh(store, device); }) {
    context.connectFullMesh(store, device);
  } else {
    context.connectFullMesh(*store, device);
  }
}

/// Every call begins with an exchange: each rank tells every other which call it makes, so that a
/// call that differs is told before Gloo moves data, which would not survive other sizes. Small
/// data travels along, and then that is all; large data follows by Gloo's own algorithms, over
/// connections made when they are first needed.
class GlooBackend : public Backend {
 public:
  explicit GlooBackend(Meeting meeting);

  void broadcast(Buffer buffer, int root) override;
  void all_reduce(Buffer buffer, ReduceOp op) override;
  void barrier() override;
  void leave() noexcept override;

 private:
  using Context = std::shared_ptr<gloo::rendezvous::Context>;

  Context connect(const std::string& purpose);
  template <class F>
  void perform(Call call, std::string_view data, F rest);
  void combine_exchanged(Buffer buffer, Reduction reduce);
  void broadcast_large(Buffer buffer, const Call& call);
  void all_reduce_large(Buffer buffer, Reduction reduce, const Call& call);

  Error explain(const Call& call, const std::string& failure);
  std::vector<int> lost_ranks();
  Error agree_on(const Call& call, ErrorKind kind, const std::string& sentence);

  std::string me() const { return "rank " + std::to_string(meeting_.rank); }

  Meeting meeting_;
  std::unique_ptr<GlooExchange> exchange_;
  Context large_;  ///< moves large data; empty until there is some
  bool exchanging_ = false;
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
  const SigpipeBlocked blocked;
  try {
    exchange_ = std::make_unique<GlooExchange>(connect("exchange/"));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::system, "ddp: " + me() + " could not connect to every other rank from " +
                                       meeting_.store.local_address() + ": " +
                                       what_gloo_says(failure));
  }
}

/// Connects every pair of ranks. SIGPIPE is blocked, and stays so in Gloo's thread.
GlooBackend::Context GlooBackend::connect(const std::string& purpose) {
  const auto store = std::make_shared<GlooStore>(meeting_.store, meeting_.prefix + purpose,
                                                 meeting_.rank, meeting_.size, meeting_.timeout);
  const gloo::transport::tcp::attr where(meeting_.store.local_address().c_str());
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto context = std::make_shared<gloo::rendezvous::Context>(meeting_.rank, meeting_.size);
  context->setTimeout(meeting_.timeout);
  connect_all(*context, store, device);
  return context;
}

void GlooBackend::broadcast(Buffer buffer, int root) {
  Call call{.operation = Operation::broadcast};
  call.count = buffer.count;
  call.root = root;
  call.type = static_cast<std::uint8_t>(buffer.type);
  const bool small = is_small(buffer);
  const bool mine = root == meeting_.rank;
  perform(call, small && mine ? view(buffer) : "", [&](const Call& numbered) {
    if (!small) return broadcast_large(buffer, numbered);
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
  perform(call, small ? view(buffer) : "", [&](const Call& numbered) {
    if (!small) return all_reduce_large(buffer, reduce, numbered);
    if (buffer.count > 0) combine_exchanged(buffer, reduce);
  });
  if (op == ReduceOp::mean) divide(buffer, meeting_.size);
}

void GlooBackend::barrier() {
  perform(Call{.operation = Operation::barrier}, "", [](const Call&) {});
}

void GlooBackend::leave() noexcept {
  try {
    // Without it the end of our connections could overtake data another rank still waits for.
    perform(Call{.operation = Operation::leave}, "", [](const Call&) {});
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

void GlooBackend::broadcast_large(Buffer buffer, const Call& call) {
  gloo::BroadcastOptions options(large_);
  options.setOutput(static_cast<char*>(buffer.data), bytes_of(buffer));
  options.setRoot(call.root);
  options.setTag(static_cast<std::uint32_t>(call.number));
  gloo::broadcast(options);
}

void GlooBackend::all_reduce_large(Buffer buffer, Reduction reduce, const Call& call) {
  gloo::AllreduceOptions options(large_);
  // Gloo looks at the size of the elements only; the reduction knows their type.
  if (size_of(buffer.type) == 4) {
    options.setOutput(static_cast<std::int32_t*>(buffer.data), buffer.count);
  } else {
    options.setOutput(static_cast<std::int64_t*>(buffer.data), buffer.count);
  }
  options.setReduceFunction(reduce);
  options.setTag(static_cast<std::uint32_t>(call.number));
  gloo::allreduce(options);
}

/// Runs one call: exchanges `data` with everyone, then does the `rest`.
template <class F>
void GlooBackend::perform(Call call, std::string_view data, F rest) {
  const SigpipeBlocked blocked;
  call.number = ++calls_;
  const auto disconnect = [this] {
    exchange_.reset();
    large_.reset();
  };
  try {
    exchanging_ = true;
    const std::optional<int> other = exchange_->run(call, data);
    exchanging_ = false;
    if (other) {
      throw agree_on(call, ErrorKind::mismatch,
                     "is at " + describe(call) + ", but " + name_ranks({*other}) + " is at " +
                         describe(exchange_->call_of(*other)));
    }
    if (call.count * size_of(static_cast<DataType>(call.type)) > GlooExchange::kLimit && !large_) {
      large_ = connect("large/");
    }
    rest(call);
  } catch (const Error&) {
    disconnect();
    throw;
  } catch (const std::exception& failure) {
    const Error error = explain(call, what_gloo_says(failure));
    disconnect();  // only now: whoever sees it finds our verdict in the store
    throw error;
  }
}

Error GlooBackend::explain(const Call& call, const std::string& failure) {
  const std::vector<int> to_blame =
      exchanging_ ? std::vector<int>{exchange_->partner()} : std::vector<int>{};
  if (is_timeout(failure)) {
    const std::string whom = to_blame.empty() ? "another rank" : name_ranks(to_blame);
    return agree_on(
        call, ErrorKind::timed_out,
        "waited " + name_time(meeting_.timeout) + " in vain for " + whom + " in " + describe(call));
  }
  const std::vector<int> lost = exchanging_ ? to_blame : lost_ranks();
  if (lost.empty()) {
    return agree_on(call, ErrorKind::system, "failed in " + describe(call) + ": " + failure);
  }
  return agree_on(call, ErrorKind::peer_lost,
                  "lost " + name_ranks(lost) + " in " + describe(call) + ": " + failure);
}

/// The ranks whose connection for large data is gone: one more message to each finds out.
std::vector<int> GlooBackend::lost_ranks() {
  std::vector<int> lost;
  if (!large_) return lost;
  char nothing = 0;
  const auto probe = large_->createUnboundBuffer(&nothing, sizeof(nothing));
  for (int rank = 0; rank < meeting_.size; ++rank) {
    if (rank == meeting_.rank) continue;
    try {
      probe->recv(rank, kProbeSlot);
    } catch (const std::exception&) {
      lost.push_back(rank);
    }
  }
  return lost;
}

/// The first rank to fail decides what all ranks say: its sentence becomes the group's verdict.
Error GlooBackend::agree_on(const Call& call, ErrorKind kind, const std::string& sentence) {
  const std::string mine = std::to_string(static_cast<int>(kind)) + " " + me() + " " + sentence;
  auto verdict = meeting_.store.compare_set(meeting_.prefix + "verdict", "", mine);
  const std::size_t space = verdict ? verdict->find(' ') : std::string::npos;
  // Without a store, what we saw ourselves has to do.
  if (space == std::string::npos || *verdict == mine) {
    return Error(kind, "ddp: " + me() + " " + sentence);
  }
  return Error(static_cast<ErrorKind>(std::atoi(verdict->c_str())),
               "ddp: " + me() + " stops in " + describe(call) + ": " + verdict->substr(space + 1));
}

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(Meeting meeting) {
  return std::make_unique<GlooBackend>(std::move(meeting));
}

}  // namespace ddp::internal
