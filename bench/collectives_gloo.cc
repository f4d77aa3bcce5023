// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/collectives_library.h"

namespace ddprun::bench {
namespace {

using Combine = void (*)(void*, const void*, const void*, std::size_t);

/// Each call has options and a tag of its own, as PyTorch's backend gloo makes them.
class Gloo : public Library {
 public:
  explicit Gloo(const std::shared_ptr<gloo::Context>& context) : context_(context) {}

  std::string name() const override { return "Gloo"; }
  bool has(Collective collective) const override {
    return collective != Collective::reduce_scatter && collective != Collective::ping_pong;
  }

  void run(Collective collective, const Arrays& arrays) override {
    switch (collective) {
      case Collective::all_reduce:
        return all_reduce(arrays);
      case Collective::broadcast:
        return broadcast(arrays);
      case Collective::reduce:
        return reduce(arrays);
      case Collective::all_gather:
        return all_gather(arrays);
      case Collective::all_to_all:
        return all_to_all(arrays);
      case Collective::barrier:
        return barrier();
      case Collective::reduce_scatter:
      case Collective::ping_pong:
        throw std::logic_error("Gloo has no such call with options");
    }
  }

 private:
  /// Gloo's input pointers are not const.
  static float* input(const Arrays& arrays) { return const_cast<float*>(arrays.in); }

  void all_reduce(const Arrays& arrays) {
    gloo::AllreduceOptions options(context_);
    options.setInput(input(arrays), arrays.count);
    options.setOutput(arrays.out, arrays.count);
    options.setReduceFunction(static_cast<Combine>(&gloo::sum<float>));
    options.setTag(tag_++);
    gloo::allreduce(options);
  }

  void barrier() {
    gloo::BarrierOptions options(context_);
    options.setTag(tag_++);
    gloo::barrier(options);
  }

  void broadcast(const Arrays& arrays) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(arrays.out, arrays.count);
    options.setRoot(0);
    options.setTag(tag_++);
    gloo::broadcast(options);
  }

  void reduce(const Arrays& arrays) {
    gloo::ReduceOptions options(context_);
    options.setInput(input(arrays), arrays.count);
    options.setOutput(arrays.out, arrays.count);
    options.setReduceFunction(static_cast<Combine>(&gloo::sum<float>));
    options.setRoot(0);
    options.setTag(tag_++);
    gloo::reduce(options);
  }

  void all_gather(const Arrays& arrays) {
    gloo::AllgatherOptions options(context_);
    options.setInput(input(arrays), arrays.count);
    options.setOutput(arrays.out, arrays.total());
    options.setTag(tag_++);
    gloo::allgather(options);
  }

  void all_to_all(const Arrays& arrays) {
    gloo::AlltoallOptions options(context_);
    options.setInput(input(arrays), arrays.total());
    options.setOutput(arrays.out, arrays.total());
    options.setTag(tag_++);
    gloo::alltoall(options);
  }

  std::shared_ptr<gloo::Context> context_;
  std::uint32_t tag_ = 0;
};

}  // namespace

/// Connects the ranks through a folder that rank 0 makes and removes.
std::unique_ptr<Library> make_gloo(ddp::ProcessGroup& group) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench_gloo_XXXXXX").string();
  if (group.rank() == 0 && ::mkdtemp(folder.data()) == nullptr) {
    throw std::runtime_error("cannot create folder " + folder);
  }
  group.broadcast_object(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(group.rank(), group.size());
  gloo::rendezvous::FileStore store(folder);
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  gloo::transport::tcp::attr where(interface == nullptr ? "127.0.0.1" : "");
  if (interface != nullptr) where.iface = interface;
  auto device = gloo::transport::tcp::CreateDevice(where);
  context->connectFullMesh(store, device);
  group.barrier();
  if (group.rank() == 0) std::filesystem::remove_all(folder);
  return std::make_unique<Gloo>(context);
}

}  // namespace ddprun::bench
