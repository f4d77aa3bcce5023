// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/network.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace digits {
namespace {

// Offsets of the layers in the parameter vector.
constexpr std::size_t kW1 = 0;
constexpr std::size_t kB1 = kW1 + Network::kHidden * kPixels;
constexpr std::size_t kW2 = kB1 + Network::kHidden;
constexpr std::size_t kB2 = kW2 + kClasses * Network::kHidden;

/// out = weights * in + bias
void affine(const float* weights, const float* bias, std::span<const float> in,
            std::span<float> out) {
  for (std::size_t row = 0; row < out.size(); ++row) {
    float sum = bias[row];
    for (std::size_t i = 0; i < in.size(); ++i) sum += weights[row * in.size() + i] * in[i];
    out[row] = sum;
  }
}

/// Adds one digit's part to the gradients of a layer: the outer product of its output gradient and
/// its input.
void add_outer(std::span<double> weights, std::span<double> bias, std::span<const float> back,
               std::span<const float> in) {
  for (std::size_t row = 0; row < back.size(); ++row) {
    for (std::size_t i = 0; i < in.size(); ++i) weights[row * in.size() + i] += back[row] * in[i];
    bias[row] += back[row];
  }
}

/// Uniform in [-limit, limit): std's distributions differ from one library to the next.
void fill(std::span<float> values, float limit, std::mt19937_64& random) {
  for (float& value : values) {
    value = limit * (static_cast<float>(random() >> 40) * 0x1p-23F - 1.0F);
  }
}

}  // namespace

Network::Network(std::uint64_t seed)
    : parameters_(kParameters), hidden_(kHidden), logits_(kClasses) {
  std::mt19937_64 random(seed);
  const std::span all(parameters_);
  fill(all.subspan(kW1, kHidden * kPixels), std::sqrt(6.0F / kPixels), random);
  fill(all.subspan(kW2, kClasses * kHidden), std::sqrt(6.0F / kHidden), random);
}

void Network::forward(const Digit& digit) {
  const float* p = parameters_.data();
  affine(p + kW1, p + kB1, digit.pixels, hidden_);
  for (float& unit : hidden_) unit = std::max(unit, 0.0F);
  affine(p + kW2, p + kB2, hidden_, logits_);
}

Network::Parts Network::parts_of(std::span<float> parameters) {
  return {parameters.subspan(kW1, kB1 - kW1), parameters.subspan(kB1, kW2 - kB1),
          parameters.subspan(kW2, kB2 - kW2), parameters.subspan(kB2)};
}

double Network::backward(std::span<const Digit* const> batch, const Gradients& gradients,
                         const std::function<void(std::size_t)>& ready) {
  const auto& [w1, b1, w2, b2] = gradients;
  for (const auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0.0);
  double loss = 0;
  std::vector<std::vector<float>> hidden_back;
  for (const Digit* digit : batch) {
    forward(*digit);
    const std::size_t label = static_cast<std::size_t>(digit->label);

    // Softmax and cross-entropy: the gradient of the logits is probability minus truth.
    const float top = *std::max_element(logits_.begin(), logits_.end());
    float total = 0;
    for (float logit : logits_) total += std::exp(logit - top);
    std::vector<float> back(kClasses);
    for (std::size_t c = 0; c < kClasses; ++c) back[c] = std::exp(logits_[c] - top) / total;
    loss += std::log(total) - (logits_[label] - top);
    back[label] -= 1;
    add_outer(w2, b2, back, hidden_);

    // Passes gradients back through the rectifier: only for active units.
    hidden_back.emplace_back(kHidden);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float* weights = parameters_.data() + kW2 + c * kHidden;
      for (std::size_t h = 0; h < kHidden; ++h) hidden_back.back()[h] += back[c] * weights[h];
    }
    for (std::size_t h = 0; h < kHidden; ++h) hidden_back.back()[h] *= hidden_[h] > 0 ? 1.0F : 0.0F;
  }
  ready(3);
  ready(2);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    add_outer(w1, b1, hidden_back[i], batch[i]->pixels);
  }
  ready(1);
  ready(0);
  return loss;
}

int Network::classify(const Digit& digit) {
  forward(digit);
  return static_cast<int>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
}

void Optimizer::step(const Network::Parts& parameters, const Network::Gradients& gradients,
                     double scale) {
  auto velocity = velocity_.begin();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    for (std::size_t i = 0; i < parameters[p].size(); ++i, ++velocity) {
      *velocity = kMomentum * *velocity + static_cast<float>(gradients[p][i] * scale);
      parameters[p][i] -= rate_ * *velocity;
    }
  }
}

}  // namespace digits
