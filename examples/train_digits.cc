// SPDX-License-Identifier: Apache-2.0
// Data-parallel training on real data:  ddprun --nproc_per_node 4 train_digits
//
// Every rank holds the whole network and takes its share of every batch. The lines marked "ddp:"
// are all that makes it distributed.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "ddp/checkpoint.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/process_group.h"
#include "ddp/sampler.h"
#include "examples/digits/data.h"
#include "examples/digits/flags.h"
#include "examples/digits/network.h"
#include "examples/digits/training.h"

namespace {

using digits::Digit;

class Trainer {
 public:
  Trainer(ddp::ProcessGroup& group, const digits::Flags& flags)
      : group_(group),
        flags_(flags),
        data_(digits::load(flags.data)),
        sampler_(data_.training.size(), group, {.seed = flags.seed}),
        evaluated_(data_.held_out.size(), group, {.shuffle = false}),
        checkpoint_(flags.checkpoint),
        network_(flags.seed),
        model_(group, buffers(), {.gradient_type = ddp::DataType::float64}),
        optimizer_(flags.rate) {
    for (std::size_t p = 0; p < gradients_.size(); ++p) gradients_[p] = model_.gradient<double>(p);
  }

  void run() {
    const int done = resume();
    for (int epoch = done + 1; epoch <= flags_.epochs; ++epoch) {
      const double loss = train(epoch, done == 0);
      const double right = accuracy();
      if (group_.rank() == 0) digits::report(flags_, epoch, loss, right);
      if (!flags_.checkpoint.empty()) {
        checkpoint_.save(group_, static_cast<std::uint64_t>(epoch), state());  // ddp: by rank 0
      }
    }
  }

 private:
  /// The parameters, and the whole state of a checkpoint.
  std::vector<ddp::Buffer> buffers() {
    const auto parts = network_.parts();
    return {parts.begin(), parts.end()};
  }
  std::vector<ddp::Buffer> state() {
    std::vector<ddp::Buffer> all = buffers();
    all.emplace_back(optimizer_.state());
    return all;
  }

  /// Returns the epochs done. All ranks resume with the same parameters.
  int resume() {
    if (flags_.checkpoint.empty()) return 0;
    const int done = static_cast<int>(checkpoint_.load(group_, state()).value_or(0));  // ddp
    if (done > 0 && group_.rank() == 0) {
      std::printf("resumed after epoch %d/%d\n", done, flags_.epochs);
    }
    return done;
  }

  /// One pass over the training digits. Returns the mean loss.
  double train(int epoch, bool may_crash) {
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    const std::vector<std::size_t> indices = sampler_.indices();  // ddp: this rank's share
    const std::size_t all = data_.training.size();
    const auto steps =
        digits::steps(all, static_cast<std::size_t>(flags_.batch), group_.rank(), group_.size());
    double loss = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto [first, count, of] = steps[i];
      loss += step(std::span(indices).subspan(first, count), of);
      if (may_crash && i == steps.size() / 2) digits::crash_if_asked(flags_, epoch, group_.rank());
    }
    group_.all_reduce(std::span(&loss, 1));  // ddp: the sum of all ranks
    return loss / static_cast<double>(all);
  }

  /// Makes one step on a global batch of `count` digits; `indices` are this rank's. Returns the sum
  /// of their losses. The last batch may be smaller, or empty for some ranks. So the average of the
  /// ranks' sums is scaled by the number of ranks over `count`.
  double step(std::span<const std::size_t> indices, std::size_t count) {
    std::vector<const Digit*> batch;
    for (const std::size_t i : indices) batch.push_back(&data_.training[i]);
    const double loss = network_.backward(batch, gradients_, [&](std::size_t part) {
      model_.gradient_ready(part);  // ddp: averaged while the others are computed
    });
    model_.finish();  // ddp: waits for all averages
    optimizer_.step(network_.parts(), gradients_,
                    static_cast<double>(group_.size()) / static_cast<double>(count));
    return loss;
  }

  /// The share of held-out digits that are recognized; each rank classifies its part of them.
  double accuracy() {
    std::int64_t right = 0;
    const std::vector<std::size_t> indices = evaluated_.indices();  // ddp: this rank's share
    for (std::size_t i = 0; i < indices.size() - evaluated_.padding(); ++i) {
      const Digit& digit = data_.held_out[indices[i]];
      right += network_.classify(digit) == digit.label ? 1 : 0;
    }
    group_.all_reduce(std::span(&right, 1));  // ddp
    return static_cast<double>(right) / static_cast<double>(data_.held_out.size());
  }

  ddp::ProcessGroup& group_;
  const digits::Flags& flags_;
  digits::Data data_;
  ddp::DistributedSampler sampler_;
  ddp::DistributedSampler evaluated_;
  ddp::Checkpoint checkpoint_;
  digits::Network network_;
  ddp::DistributedDataParallel model_;
  digits::Network::Gradients gradients_;
  digits::Optimizer optimizer_;
};

}  // namespace

int main(int argc, char** argv) {
  const digits::Flags flags = digits::parse_flags(argc, argv);
  try {
    auto group = ddp::init_process_group();  // ddp: join the other ranks
    Trainer(group, flags).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
  return 0;
}
