// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "bench/collectives_library.h"

namespace ddprun::bench {
namespace {

class Ddp : public Library {
 public:
  explicit Ddp(ddp::ProcessGroup& group) : group_(group) {}

  std::string name() const override { return "ddp over " + group_.backend(); }
  bool has(Collective /*collective*/) const override { return true; }

  void run(Collective collective, const Arrays& arrays) override {
    const std::span in(arrays.in, arrays.total());
    const std::span out(arrays.out, arrays.total());
    switch (collective) {
      case Collective::all_reduce:
        return group_.all_reduce(in, out);
      case Collective::broadcast:
        return group_.broadcast(out);
      case Collective::reduce:
        return group_.reduce(in, out, 0);
      case Collective::all_gather:
        return group_.all_gather(in.first(arrays.count), out);
      case Collective::reduce_scatter:
        return group_.reduce_scatter(in, out.first(arrays.count));
      case Collective::all_to_all:
        return group_.all_to_all(in, out);
      case Collective::barrier:
        return group_.barrier();
      case Collective::ping_pong:
        return ping_pong(in, out);
    }
  }

 private:
  void ping_pong(std::span<const float> in, std::span<float> out) {
    const int other = partner(group_.rank(), group_.size());
    if (other == group_.rank()) return;
    if (group_.rank() < other) group_.send(in, other);
    group_.recv(out, other);
    if (group_.rank() > other) group_.send(in, other);
  }

  ddp::ProcessGroup& group_;
};

}  // namespace

std::unique_ptr<Library> make_ddp(ddp::ProcessGroup& group) {
  return std::make_unique<Ddp>(group);
}

}  // namespace ddprun::bench
