// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "examples/digits/data.h"

namespace digits {

/// A multi-layer perceptron, 64 pixels - 64 hidden units - 10 classes.
class Network {
 public:
  static constexpr std::size_t kHidden = 64;
  static constexpr std::size_t kParameters = (kPixels + 1) * kHidden + (kHidden + 1) * kClasses;

  /// Weights and bias of the hidden layer, then of the output layer.
  using Parts = std::array<std::span<float>, 4>;

  /// The gradients of each part. In double, so that the distribution of digits among ranks does not
  /// matter: the same global batch gives the same step with any number of workers.
  using Gradients = std::array<std::span<double>, 4>;

  /// Random parameters; the same on every machine for the same seed.
  explicit Network(std::uint64_t seed);

  Parts parts() { return parts_of(parameters_); }

  /// The parts of kParameters elements in the layout of a network.
  static Parts parts_of(std::span<float> parameters);

  /// Makes `gradients` the sums over a batch, layer by layer from the last, and calls ready(p) as
  /// soon as the gradient of part p is done. Returns the sum of the losses (cross-entropy).
  double backward(std::span<const Digit* const> batch, const Gradients& gradients,
                  const std::function<void(std::size_t)>& ready);

  /// The predicted class of a digit.
  int classify(const Digit& digit);

 private:
  void forward(const Digit& digit);

  std::vector<float> parameters_;
  std::vector<float> hidden_;  ///< activations of the last forward()
  std::vector<float> logits_;
};

/// Gradient descent with momentum.
class Optimizer {
 public:
  static constexpr float kMomentum = 0.9F;

  explicit Optimizer(float rate) : rate_(rate), velocity_(Network::kParameters) {}

  /// One step against the gradients, each times `scale`.
  void step(const Network::Parts& parameters, const Network::Gradients& gradients, double scale);

  std::vector<float>& state() { return velocity_; }

 private:
  float rate_;
  std::vector<float> velocity_;
};

}  // namespace digits
