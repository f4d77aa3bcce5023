// SPDX-License-Identifier: Apache-2.0
// The training of train_digits on GPUs:  ddprun --nproc_per_node gpu train_digits_cuda
//
// Flags, checkpoints and, except for rounding, results are the same. The host only queues work, and
// waits for the GPU at the end of an epoch. The lines marked "ddp:" are all that makes it
// distributed.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <exception>
#include <span>
#include <vector>

#include "ddp/checkpoint.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/local_devices.h"
#include "ddp/process_group.h"
#include "ddp/sampler.h"
#include "examples/digits/data.h"
#include "examples/digits/flags.h"
#include "examples/digits/gpu_memory.h"
#include "examples/digits/gpu_network.h"
#include "examples/digits/training.h"

namespace {

using digits::Network;

/// Makes the gradients of the output layer one bucket: they are averaged while those of the hidden
/// layer are computed.
constexpr std::size_t kFirstBucket = (Network::kHidden + 1) * digits::kClasses * sizeof(float);

class Trainer {
 public:
  Trainer(ddp::ProcessGroup& group, const digits::Flags& flags)
      : group_(group),
        flags_(flags),
        data_(digits::load(flags.data)),
        sampler_(data_.training.size(), group, {.seed = flags.seed}),
        evaluated_(data_.held_out.size(), group, {.shuffle = false}),
        checkpoint_(flags.checkpoint),
        held_out_(data_.held_out, share_of(evaluated_)),
        network_(Network(flags.seed), std::max(sampler_.size(), evaluated_.size())),
        model_(group, parameters(),
               {.first_bucket_bytes = kFirstBucket, .allocate = digits::allocate_on_gpu<char>}) {
    for (std::size_t p = 0; p < gradients_.size(); ++p) {
      const ddp::Buffer gradient = model_.gradient(p);
      gradients_[p] = {static_cast<float*>(gradient.data), gradient.count};
    }
  }

  void run() {
    const int done = resume();
    for (int epoch = done + 1; epoch <= flags_.epochs; ++epoch) {
      sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
      const digits::GpuDigits training(data_.training, share_of(sampler_));
      network_.clear_sums();
      train(training, epoch, done == 0);
      network_.classify(held_out_);
      group_.all_reduce(ddp::DeviceSpan<double>{network_.sums(), 2});  // ddp
      report(epoch);
      if (!flags_.checkpoint.empty()) save(epoch);
    }
  }

 private:
  /// This rank's samples, without padding.
  static std::vector<std::size_t> share_of(const ddp::DistributedSampler& sampler) {
    std::vector<std::size_t> indices = sampler.indices();  // ddp: this rank's share
    indices.resize(indices.size() - sampler.padding());
    return indices;
  }

  /// The parameters in the GPU's memory, for CUDA's default stream.
  std::vector<ddp::Buffer> parameters() const {
    std::vector<ddp::Buffer> all;
    for (const auto& part : network_.parts()) {
      all.emplace_back(ddp::DeviceSpan<float>{part.data(), part.size()});
    }
    return all;
  }

  /// One pass over the training digits; only queues the work.
  void train(const digits::GpuDigits& training, int epoch, bool may_crash) {
    const auto steps = digits::steps(data_.training.size(), static_cast<std::size_t>(flags_.batch),
                                     group_.rank(), group_.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      network_.backward(training, steps[i], gradients_, [&](std::size_t part) {
        model_.gradient_ready(part);  // ddp: averaged after the work queued so far
      });
      model_.finish();  // ddp: later work uses the averages
      network_.descend(gradients_,
                       static_cast<float>(group_.size()) / static_cast<float>(steps[i].of),
                       flags_.rate);
      if (may_crash && i == steps.size() / 2) digits::crash_if_asked(flags_, epoch, group_.rank());
    }
  }

  /// Prints the epoch's report; waits for the GPU.
  void report(int epoch) const {
    std::vector<double> sums(2);
    digits::copy_to_host(sums, network_.sums());
    if (group_.rank() != 0) return;
    digits::report(flags_, epoch, sums[0] / static_cast<double>(data_.training.size()),
                   sums[1] / static_cast<double>(data_.held_out.size()));
  }

  /// The parts of a checkpoint of train_digits.
  static std::vector<ddp::Buffer> parts_of(std::vector<float>& state) {
    const auto parameters = Network::parts_of(std::span(state).first(Network::kParameters));
    std::vector<ddp::Buffer> all(parameters.begin(), parameters.end());
    all.emplace_back(std::span(state).subspan(Network::kParameters));
    return all;
  }

  void save(int epoch) {
    std::vector<float> state = network_.state();
    checkpoint_.save(group_, static_cast<std::uint64_t>(epoch), parts_of(state));  // ddp: by rank 0
  }

  /// Returns the epochs done. All ranks resume with the same parameters.
  int resume() {
    if (flags_.checkpoint.empty()) return 0;
    std::vector<float> state = network_.state();
    const int done =
        static_cast<int>(checkpoint_.load(group_, parts_of(state)).value_or(0));  // ddp
    network_.set_state(state);
    if (done > 0 && group_.rank() == 0) {
      std::printf("resumed after epoch %d/%d\n", done, flags_.epochs);
    }
    return done;
  }

  ddp::ProcessGroup& group_;
  const digits::Flags& flags_;
  digits::Data data_;
  ddp::DistributedSampler sampler_;
  ddp::DistributedSampler evaluated_;
  ddp::Checkpoint checkpoint_;
  digits::GpuDigits held_out_;
  digits::GpuNetwork network_;
  ddp::DistributedDataParallel model_;
  digits::GpuNetwork::Parts gradients_;
};

}  // namespace

int main(int argc, char** argv) {
  const digits::Flags flags = digits::parse_flags(argc, argv);
  try {
    auto group = ddp::init_process_group({.backend = "nccl"});  // ddp: join the other ranks
    digits::check(cudaSetDevice(ddp::local_device()));          // ddp: each has its own GPU
    Trainer(group, flags).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits_cuda: %s\n", error.what());
    return 1;
  }
  return 0;
}
