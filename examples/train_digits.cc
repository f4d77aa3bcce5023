// SPDX-License-Identifier: Apache-2.0
// Data-parallel training on real data:  ddprun --nproc_per_node 4 train_digits
//
// Every rank holds the whole network and takes its share of every batch. The lines marked "ddp:"
// are all that makes it distributed.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/process_group.h"
#include "examples/digits/checkpoint.h"
#include "examples/digits/data.h"
#include "examples/digits/flags.h"
#include "examples/digits/network.h"

namespace {

using digits::Digit;

/// The order of the training digits in one epoch; the same on every rank.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, int epoch) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed * 1'000'003 + static_cast<std::uint64_t>(epoch));
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

class Trainer {
 public:
  Trainer(ddp::ProcessGroup& group, const digits::Flags& flags)
      : group_(group),
        flags_(flags),
        data_(digits::load(flags.data)),
        network_(flags.seed),
        optimizer_(flags.rate) {}

  void run() {
    const int done = resume();
    may_crash_ = done == 0 && first_attempt();
    for (int epoch = done + 1; epoch <= flags_.epochs; ++epoch) {
      const double loss = train(epoch);
      report(epoch, loss, accuracy());
      if (group_.rank() == 0 && !flags_.checkpoint.empty()) {
        digits::save_checkpoint(flags_.checkpoint, epoch, network_.parameters(),
                                optimizer_.state());
      }
    }
  }

 private:
  /// Rank 0 decides where to start; everyone starts there, with the same parameters.
  int resume() {
    std::int32_t done = 0;
    if (group_.rank() == 0 && !flags_.checkpoint.empty()) {
      done = digits::load_checkpoint(flags_.checkpoint, network_.parameters(), optimizer_.state());
      if (done > 0) std::printf("resumed after epoch %d/%d\n", done, flags_.epochs);
    }
    group_.broadcast(std::span(&done, 1));    // ddp: from rank 0 to all
    group_.broadcast(network_.parameters());  // ddp
    group_.broadcast(optimizer_.state());     // ddp
    return done;
  }

  /// One pass over the training digits; the mean loss.
  double train(int epoch) {
    const std::vector<std::size_t> order = shuffled(data_.training.size(), flags_.seed, epoch);
    const std::size_t batch = static_cast<std::size_t>(flags_.batch);
    double loss = 0;
    for (std::size_t start = 0; start < order.size(); start += batch) {
      const std::size_t end = std::min(start + batch, order.size());
      loss += step(std::span(order).subspan(start, end - start));
      if (start <= order.size() / 2 && order.size() / 2 < end) crash_if_asked(epoch);
    }
    return loss / static_cast<double>(order.size());
  }

  /// One step on one global batch; the sum of its losses. The last batch may be smaller, or have
  /// nothing for some ranks: sums over all ranks, divided by the batch's size, are right anyway.
  double step(std::span<const std::size_t> batch) {
    std::vector<double> sums(digits::Network::kParameters + 1);  // gradients, then the loss
    const auto size = static_cast<std::size_t>(group_.size());
    for (auto i = static_cast<std::size_t>(group_.rank()); i < batch.size(); i += size) {
      sums.back() += network_.accumulate(data_.training[batch[i]], sums);
    }
    group_.all_reduce(sums, ddp::ReduceOp::sum);  // ddp: everyone's share, summed
    optimizer_.step(network_.parameters(), sums, static_cast<double>(batch.size()));
    return sums.back();
  }

  /// The share of held-out digits that are recognized; each rank looks at its part of them.
  double accuracy() {
    std::int64_t right = 0;
    const auto size = static_cast<std::size_t>(group_.size());
    for (auto i = static_cast<std::size_t>(group_.rank()); i < data_.held_out.size(); i += size) {
      const Digit& digit = data_.held_out[i];
      right += network_.classify(digit) == digit.label ? 1 : 0;
    }
    group_.all_reduce(std::span(&right, 1));  // ddp
    return static_cast<double>(right) / static_cast<double>(data_.held_out.size());
  }

  void report(int epoch, double loss, double accuracy) const {
    if (group_.rank() != 0) return;
    const std::string of = std::to_string(epoch) + "/" + std::to_string(flags_.epochs);
    const int width = static_cast<int>(2 * std::to_string(flags_.epochs).size() + 1);
    std::printf("epoch %-*s loss %.6f  accuracy %.3f\n", width, of.c_str(), loss, accuracy);
    std::fflush(stdout);  // a pipe would keep it back
  }

  static bool first_attempt() {
    const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
    return restarts == nullptr || std::string(restarts) == "0";
  }

  /// Dies as a broken machine does: at once and without a word to the others.
  void crash_if_asked(int epoch) const {
    if (!may_crash_ || !flags_.crash_at) return;
    if (flags_.crash_at->epoch != epoch || flags_.crash_at->rank != group_.rank()) return;
    std::fprintf(stderr, "rank %d crashes in epoch %d, as --crash-at asks\n", group_.rank(), epoch);
    std::raise(SIGKILL);
  }

  ddp::ProcessGroup& group_;
  const digits::Flags& flags_;
  digits::Data data_;
  digits::Network network_;
  digits::Optimizer optimizer_;
  bool may_crash_ = false;
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
