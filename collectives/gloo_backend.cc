// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "collectives/call.h"
#include "collectives/failure.h"
#include "collectives/gloo_backend_store.h"
#include "collectives/sigpipe.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;

// Gloo's own slots begin with a collective's number, 1 to 8, in these bits.
constexpr std::uint64_t kCallSlot = std::uint64_t{0x70} << 40;
constexpr std::uint64_t kProbeSlot = std::uint64_t{0x71} << 40;
// Gloo waits five times its timeout for a connection; by then every rank listens.
constexpr int kGlooConnectFactor = 5;
constexpr milliseconds kMinConnectTime{5000};
// Who waits for its neighbour knows whom to blame, so it gives up before the others do.
constexpr milliseconds kHeadStart{1000};

using gloo::transport::UnboundBuffer;
using Reduction = void (*)(void*, const void*, const void*, std::size_t);

template <class T, class Combine>
void combine(void* out, const void* a, const void* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<T*>(out)[i] = Combine()(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]);
  }
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <class T>
Reduction reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return &combine<T, Min>;
    case ReduceOp::max:
      return &combine<T, Max>;
    case ReduceOp::sum:
    case ReduceOp::mean:  // divided at the end
      return &combine<T, Sum>;
  }
  return nullptr;
}

template <class T>
void divide(Buffer buffer, int by) {
  T* elements = static_cast<T*>(buffer.data);
  for (std::size_t i = 0; i < buffer.count; ++i) elements[i] /= static_cast<T>(by);
}

/// Calls `f(T())` with the C++ type of `type`.
template <class F>
void with_type(DataType type, F f) {
  switch (type) {
    case DataType::float32:
      return f(float());
    case DataType::float64:
      return f(double());
    case DataType::int32:
      return f(std::int32_t());
    case DataType::int64:
      return f(std::int64_t());
  }
}

/// What Gloo says, without the place in its source that it puts in front.
std::string without_source_place(const std::string& text) {
  const std::size_t end = text.front() == '[' ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(Meeting meeting);

  void broadcast(Buffer buffer, int root) override;
  void all_reduce(Buffer buffer, ReduceOp op) override;
  void barrier() override;
  void leave() noexcept override;

 private:
  template <class F>
  void perform(Call call, F work);
  void compare_with_neighbours(const Call& call);
  Error explain(const Call& call, const std::string& failure);
  std::vector<int> lost_ranks();
  Error agree_on(const Call& call, ErrorKind kind, const std::string& sentence);
  void disconnect();

  int left() const { return (meeting_.rank + meeting_.size - 1) % meeting_.size; }
  int right() const { return (meeting_.rank + 1) % meeting_.size; }
  std::string me() const { return "rank " + std::to_string(meeting_.rank); }

  Meeting meeting_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::uint64_t calls_ = 0;
  Call mine_;    ///< on its way to the right neighbour
  Call theirs_;  ///< from the left neighbour
  std::unique_ptr<UnboundBuffer> to_right_;
  std::unique_ptr<UnboundBuffer> from_left_;
  bool sending_ = false;            ///< mine_ may not have left yet
  std::optional<int> waiting_for_;  ///< the one rank that can let us go on
};

template <class Context>
void connect(Context& context, std::shared_ptr<GlooStore> store,
             std::shared_ptr<gloo::transport::Device>& device) {
  // Newer releases of Gloo share the store.
  if constexpr (requires { context.connectFullMesh(store, device); }) {
    context.connectFullMesh(store, device);
  } else {
    context.connectFullMesh(*store, device);
  }
}

GlooBackend::GlooBackend(Meeting meeting)
    : meeting_(std::move(meeting)),
      context_(std::make_shared<gloo::rendezvous::Context>(meeting_.rank, meeting_.size)) {
  const SigpipeBlocked blocked;  // Gloo's thread, started here, inherits it
  const auto store = std::make_shared<GlooStore>(meeting_.store, meeting_.prefix, meeting_.rank,
                                                 meeting_.size, meeting_.timeout);
  try {
    gloo::transport::tcp::attr where(meeting_.store.local_address().c_str());
    auto device = gloo::transport::tcp::CreateDevice(where);
    context_->setTimeout(std::max(kMinConnectTime, meeting_.timeout) / kGlooConnectFactor);
    connect(*context_, store, device);
    to_right_ = context_->createUnboundBuffer(&mine_, sizeof(mine_));
    from_left_ = context_->createUnboundBuffer(&theirs_, sizeof(theirs_));
    from_left_->recv(left(), kCallSlot);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::system, "ddp: " + me() + " could not connect to every other rank from " +
                                       meeting_.store.local_address() + ": " +
                                       without_source_place(failure.what()));
  }
}

void GlooBackend::broadcast(Buffer buffer, int root) {
  Call call{.operation = Operation::broadcast};
  call.count = buffer.count;
  call.root = root;
  call.type = static_cast<std::uint8_t>(buffer.type);
  perform(call, [&](std::uint32_t tag, milliseconds limit) {
    if (buffer.count == 0) return;
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(buffer.data), buffer.count * size_of(buffer.type));
    options.setRoot(root);
    options.setTag(tag);
    options.setTimeout(limit);
    gloo::broadcast(options);
  });
}

void GlooBackend::all_reduce(Buffer buffer, ReduceOp op) {
  Call call{.operation = Operation::all_reduce};
  call.count = buffer.count;
  call.type = static_cast<std::uint8_t>(buffer.type);
  call.reduce = static_cast<std::uint8_t>(op);
  perform(call, [&](std::uint32_t tag, milliseconds limit) {
    if (buffer.count == 0) return;
    gloo::AllreduceOptions options(context_);
    with_type(buffer.type, [&]<class T>(T) {
      options.setOutput(static_cast<T*>(buffer.data), buffer.count);
      options.setReduceFunction(reduction<T>(op));
    });
    options.setTag(tag);
    options.setTimeout(limit);
    gloo::allreduce(options);
  });
  if (op == ReduceOp::mean) {
    with_type(buffer.type, [&]<class T>(T) { divide<T>(buffer, meeting_.size); });
  }
}

void GlooBackend::barrier() {
  perform(Call{.operation = Operation::barrier}, [&](std::uint32_t tag, milliseconds limit) {
    gloo::BarrierOptions options(context_);
    options.setTag(tag);
    options.setTimeout(limit);
    gloo::barrier(options);
  });
}

void GlooBackend::leave() noexcept {
  try {
    // Without it the end of our connections could overtake data another rank still waits for.
    perform(Call{.operation = Operation::leave}, [&](std::uint32_t tag, milliseconds limit) {
      gloo::BarrierOptions options(context_);
      options.setTag(tag);
      options.setTimeout(limit);
      gloo::barrier(options);
      to_right_->waitSend(limit);
    });
  } catch (const std::exception&) {
    // Whoever still needs the group is told by its own next call.
  }
}

template <class F>
void GlooBackend::perform(Call call, F work) {
  const SigpipeBlocked blocked;
  call.number = ++calls_;
  try {
    compare_with_neighbours(call);
    work(fingerprint(call), meeting_.timeout + kHeadStart);
  } catch (const Error&) {
    disconnect();
    throw;
  } catch (const std::exception& failure) {
    const Error error = explain(call, without_source_place(failure.what()));
    disconnect();  // only now: whoever sees it finds our verdict in the store
    throw error;
  }
}

/// Tells the right neighbour what we are about to do and compares it with what the left one does.
/// Around the ring, two different calls always meet somewhere; and since a call's fingerprint is
/// its tag, data of different calls never do, which Gloo would not survive.
void GlooBackend::compare_with_neighbours(const Call& call) {
  if (sending_) {
    waiting_for_ = right();
    to_right_->waitSend(meeting_.timeout);
  }
  mine_ = call;
  to_right_->send(right(), kCallSlot);
  sending_ = true;
  waiting_for_ = left();
  from_left_->waitRecv(meeting_.timeout);
  waiting_for_.reset();
  const Call theirs = theirs_;
  if (theirs != call) {
    throw agree_on(call, ErrorKind::mismatch,
                   "is at " + describe(call) + ", but rank " + std::to_string(left()) + " is at " +
                       describe(theirs));
  }
  if (call.operation != Operation::leave) from_left_->recv(left(), kCallSlot);
}

Error GlooBackend::explain(const Call& call, const std::string& failure) {
  if (failure.find("imed out") != std::string::npos) {
    const std::string whom = waiting_for_ ? name_ranks({*waiting_for_}) : "another rank";
    return agree_on(
        call, ErrorKind::timed_out,
        "waited " + name_time(meeting_.timeout) + " in vain for " + whom + " in " + describe(call));
  }
  const std::vector<int> lost = lost_ranks();
  if (lost.empty())
    return agree_on(call, ErrorKind::system, "failed in " + describe(call) + ": " + failure);
  return agree_on(call, ErrorKind::peer_lost,
                  "lost " + name_ranks(lost) + " in " + describe(call) + ": " + failure);
}

/// The ranks whose connection is gone: one more message to each finds out.
std::vector<int> GlooBackend::lost_ranks() {
  std::vector<int> lost;
  char nothing = 0;
  const auto probe = context_->createUnboundBuffer(&nothing, sizeof(nothing));
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

void GlooBackend::disconnect() {
  to_right_.reset();
  from_left_.reset();
  context_.reset();
}

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(Meeting meeting) {
  return std::make_unique<GlooBackend>(std::move(meeting));
}

}  // namespace ddp::internal
