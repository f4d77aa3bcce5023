// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/digits/data.h"

namespace digits {

/// A multi-layer perceptron, 64 pixels - 64 hidden units - 10 classes. All parameters lie in one
/// vector, so that moving them between ranks is one call.
class Network {
 public:
  static constexpr std::size_t kHidden = 64;
  static constexpr std::size_t kParameters = (kPixels + 1) * kHidden + (kHidden + 1) * kClasses;

  /// Random parameters; the same on every machine for the same seed.
  explicit Network(std::uint64_t seed);

  std::vector<float>& parameters() { return parameters_; }

  /// The loss of one digit (cross-entropy). Adds its gradient to `gradient`, kParameters long.
  ///
  /// The sum is kept in double so that it does not matter how digits are shared out among ranks:
  /// the same global batch gives the same step, whatever the number of workers.
  double accumulate(const Digit& digit, std::span<double> gradient);

  /// The class the network sees in a digit.
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
  explicit Optimizer(float rate) : rate_(rate), velocity_(Network::kParameters) {}

  /// One step against the mean of the gradients of `count` digits, of which the sum is given.
  void step(std::span<float> parameters, std::span<const double> gradient_sum, double count);

  std::vector<float>& state() { return velocity_; }

 private:
  float rate_;
  std::vector<float> velocity_;
};

}  // namespace digits
