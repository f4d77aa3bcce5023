// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/training/model.h"

#include <cmath>
#include <memory>

using ddp::Buffer;
using ddp::DataType;
using ddp::DistributedDataParallel;
using ddprun::tests::check;
using ddprun::tests::wrong;

namespace ddp_tests {

Memory& memory() {
  static const std::unique_ptr<Memory> made = ddp_tests::make_memory();
  return *made;
}

void check_refused(const std::string& words, const std::function<void()>& call) {
  try {
    call();
  } catch (const ddp::Error& error) {
    check(error.kind() == ddp::ErrorKind::usage, std::string("the kind of: ") + error.what());
    check(std::string(error.what()).find(words) != std::string::npos, error.what());
    return;
  }
  wrong("not refused: " + words);
}

std::vector<Values> read(const std::vector<Buffer>& buffers) {
  std::vector<Values> all;
  std::vector<std::vector<float>> floats;
  for (const Buffer& buffer : buffers) {
    const bool is_double = buffer.type == DataType::float64;
    all.emplace_back(is_double ? buffer.count : 0);
    floats.emplace_back(is_double ? 0 : buffer.count);
    memory().read(buffer, is_double ? static_cast<void*>(all.back().data()) : floats.back().data());
  }
  memory().settle();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].insert(all[i].end(), floats[i].begin(), floats[i].end());
  }
  return all;
}

Values read(const Buffer& buffer) {
  return read(std::vector{buffer}).front();
}

std::vector<Buffer> gradients(const DistributedDataParallel& model) {
  std::vector<Buffer> all;
  for (std::size_t p = 0; p < model.size(); ++p) all.push_back(model.gradient(p));
  return all;
}

void write(const Buffer& buffer, const Values& values) {
  if (buffer.type == DataType::float64) return memory().write(buffer, values.data());
  const std::vector<float> floats(values.begin(), values.end());
  memory().write(buffer, floats.data());
}

void fill(const Buffer& buffer, double value) {
  write(buffer, Values(buffer.count, value));
}

DistributedDataParallel::Options placed(DistributedDataParallel::Options options) {
  options.allocate = memory().allocator();
  return options;
}

Model::Model(const std::vector<std::size_t>& counts, int rank, std::size_t double_every) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool is_double = double_every > 0 && i % double_every == 0;
    parameters.push_back(
        memory().make(counts[i], is_double ? DataType::float64 : DataType::float32));
    fill(parameters.back(), rank + 1);
  }
}

double gradient(int rank, std::size_t pass, std::size_t parameter, std::size_t i) {
  return static_cast<double>((i * 7 + parameter * 3 + pass) % 11) * (rank + 1);
}

double average(int size, std::size_t pass, std::size_t parameter, std::size_t i) {
  return gradient(0, pass, parameter, i) * (size + 1) / 2;
}

void compute(DistributedDataParallel& model, int rank, std::size_t pass, std::size_t parameter,
             bool adds) {
  const Buffer buffer = model.gradient(parameter);
  Values values = adds ? read(buffer) : Values(buffer.count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += gradient(rank, pass, parameter, i);
  write(buffer, values);
  model.gradient_ready(parameter);
}

void backward(DistributedDataParallel& model, int rank, std::size_t pass, const Order& order,
              bool adds) {
  for (const std::size_t parameter : order) compute(model, rank, pass, parameter, adds);
}

void check_average(const DistributedDataParallel& model, int size, std::size_t pass) {
  const std::vector<Values> all = read(gradients(model));
  for (std::size_t p = 0; p < model.size(); ++p) {
    const Values& values = all[p];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = average(size, pass, p, i);
      if (std::abs(values[i] - expected) <= 1e-5 * expected) continue;
      wrong("pass " + std::to_string(pass) + ", element " + std::to_string(i) + " of gradient " +
            std::to_string(p) + ": " + std::to_string(values[i]) + " instead of " +
            std::to_string(expected));
    }
  }
}

}  // namespace ddp_tests
