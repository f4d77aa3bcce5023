// SPDX-License-Identifier: Apache-2.0
// A model whose gradients a test's ranks average, in the memory of its program.
#pragma once

#include <cstddef>
#include <ddp/distributed_data_parallel.h>
#include <functional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/training/memory.h"

namespace ddp_tests {

using Order = std::vector<std::size_t>;
using Values = std::vector<double>;

Memory& memory();

/// Checks that the call throws an error of kind usage with these words.
void check_refused(const std::string& words, const std::function<void()>& call);

/// Returns the contents of each buffer.
std::vector<Values> read(const std::vector<ddp::Buffer>& buffers);
Values read(const ddp::Buffer& buffer);
void fill(const ddp::Buffer& buffer, double value);

std::vector<ddp::Buffer> gradients(const ddp::DistributedDataParallel& model);
ddp::DistributedDataParallel::Options placed(ddp::DistributedDataParallel::Options options = {});

/// Parameters of float32 and float64; every rank fills them with other numbers.
struct Model {
  std::vector<ddp::Buffer> parameters;

  Model(const std::vector<std::size_t>& counts, int rank, std::size_t double_every = 0);
};

/// A rank's gradient; small whole numbers, so that sums have no rounding.
double gradient(int rank, std::size_t pass, std::size_t parameter, std::size_t i);

/// The average of gradient(), computed plainly.
double average(int size, std::size_t pass, std::size_t parameter, std::size_t i);

/// Writes a gradient; with `adds`, adds to it.
void compute(ddp::DistributedDataParallel& model, int rank, std::size_t pass, std::size_t parameter,
             bool adds = false);
void backward(ddp::DistributedDataParallel& model, int rank, std::size_t pass, const Order& order,
              bool adds = false);
void check_average(const ddp::DistributedDataParallel& model, int size, std::size_t pass);

/// Trains with `body` in memory() on every rank.
template <ddprun::tests::RankBody F, class... Args>
std::vector<ddprun::tests::Ended> train(int size, F /*body*/, const Args&... arguments) {
  const auto in_memory = [](const ddprun::tests::internal::Passed<Args>&... passed) {
    static_cast<void>(memory());  // before the group, so that a device is current
    ddp::ProcessGroup group = ddprun::tests::join();
    F{}(group, passed...);
  };
  return ddprun::tests::run_ranks(size, ddprun::tests::rank_command(in_memory, arguments...),
                                  memory_variables());
}

/// train(), and checks that all ranks succeed.
template <ddprun::tests::RankBody F, class... Args>
void check_training(int size, F body, const Args&... arguments) {
  if (!has_memory_for(size)) return;
  for (const ddprun::tests::Ended& rank : train(size, body, arguments...)) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
    CHECK((rank.output.empty() || ddprun::tests::is_over_mpi()));
  }
}

}  // namespace ddp_tests
