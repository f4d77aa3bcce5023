// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "examples/digits/data.h"
#include "examples/digits/network.h"
#include "examples/digits/training.h"

namespace digits {

/// The digits of `all` with these indices, in this order, in the memory of the current GPU.
struct GpuDigits {
  GpuDigits(const std::vector<Digit>& all, std::span<const std::size_t> indices);

  std::size_t count;
  std::shared_ptr<float> pixels;
  std::shared_ptr<int> labels;
};

/// Network and Optimizer in the memory of the current GPU. Calls only queue work in CUDA's default
/// stream, unless stated otherwise.
class GpuNetwork {
 public:
  /// Weights and biases, or their gradients, in the GPU's memory.
  using Parts = Network::Parts;

  /// Starts with the parameters of `start`, for up to `digits` at a time. Waits for the GPU.
  GpuNetwork(Network start, std::size_t digits);

  Parts parts() const;

  /// Makes `gradients` the sums over the digits of `step`, layer by layer from the last, and calls
  /// ready(p) as soon as that of part p is queued. Adds the losses (cross-entropy) to sums()[0].
  void backward(const GpuDigits& digits, const Step& step, const Parts& gradients,
                const std::function<void(std::size_t)>& ready);

  /// One step against the gradients, each times `scale`.
  void descend(const Parts& gradients, float scale, float rate);

  /// Adds the number of recognized digits to sums()[1].
  void classify(const GpuDigits& digits);

  /// Two numbers in the GPU's memory, zero at first.
  double* sums() const { return sums_.get(); }
  void clear_sums();

  /// Parameters and momentum, on the host. Both functions wait for the GPU.
  std::vector<float> state() const;
  void set_state(const std::vector<float>& state);

 private:
  void forward(const float* pixels, std::size_t count);

  std::shared_ptr<float> state_;
  std::shared_ptr<float> hidden_;  ///< activations of the last forward()
  std::shared_ptr<float> logits_;
  std::shared_ptr<float> hidden_back_;  ///< gradients of the same
  std::shared_ptr<float> logits_back_;
  std::shared_ptr<double> sums_;
};

}  // namespace digits
