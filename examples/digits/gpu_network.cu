// SPDX-License-Identifier: Apache-2.0
// Plain kernels, written to be read and not to be fast. A block is a digit and a thread one of its
// values, unless stated otherwise.
#include "examples/digits/gpu_memory.h"
#include "examples/digits/gpu_network.h"

namespace digits {
namespace {

constexpr int kHidden = Network::kHidden;

/// out = max(weights * in + bias, least)
__global__ void affine(const float* weights, const float* bias, const float* in, int width,
                       float least, float* out) {
  float sum = bias[threadIdx.x];
  for (int i = 0; i < width; ++i) {
    sum += weights[threadIdx.x * width + i] * in[blockIdx.x * width + i];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = fmaxf(sum, least);
}

/// Softmax and cross-entropy: the gradient of the logits is probability minus truth.
__global__ void compare(const float* logits, const int* labels, float* back, double* loss) {
  const float* const own = logits + blockIdx.x * kClasses;
  float top = own[0];
  for (int c = 1; c < kClasses; ++c) top = fmaxf(top, own[c]);
  float total = 0;
  for (int c = 0; c < kClasses; ++c) total += expf(own[c] - top);
  const float from_top = own[threadIdx.x] - top;
  const bool is_truth = labels[blockIdx.x] == static_cast<int>(threadIdx.x);
  back[blockIdx.x * kClasses + threadIdx.x] = expf(from_top) / total - (is_truth ? 1.0F : 0.0F);
  if (is_truth) atomicAdd(loss, static_cast<double>(logf(total) - from_top));
}

/// Passes gradients back through the output layer and the rectifier: only for active units.
__global__ void pass_back(const float* weights, const float* back, const float* hidden,
                          float* out) {
  float sum = 0;
  for (int c = 0; c < kClasses; ++c) {
    sum += back[blockIdx.x * kClasses + c] * weights[c * kHidden + threadIdx.x];
  }
  const unsigned unit = blockIdx.x * kHidden + threadIdx.x;
  out[unit] = hidden[unit] > 0 ? sum : 0;
}

/// The sums over digits of the outer product of output gradient and input. A block is a row of the
/// weights, a thread a column.
__global__ void sum_outer(const float* back, const float* in, int digits, float* weights,
                          float* bias) {
  float sum = 0;
  float sum_back = 0;
  for (int d = 0; d < digits; ++d) {
    sum += back[d * gridDim.x + blockIdx.x] * in[d * blockDim.x + threadIdx.x];
    sum_back += back[d * gridDim.x + blockIdx.x];
  }
  weights[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) bias[blockIdx.x] = sum_back;
}

/// A thread is a parameter.
__global__ void step(float* parameters, float* velocity, const float* gradients, unsigned count,
                     float scale, float rate) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  velocity[i] = Optimizer::kMomentum * velocity[i] + gradients[i] * scale;
  parameters[i] -= rate * velocity[i];
}

__global__ void count_right(const float* logits, const int* labels, double* right) {
  const float* const own = logits + blockIdx.x * kClasses;
  int best = 0;
  for (int c = 1; c < kClasses; ++c) best = own[c] > own[best] ? c : best;
  if (best == labels[blockIdx.x]) atomicAdd(right, 1.0);
}

}  // namespace

GpuDigits::GpuDigits(const std::vector<Digit>& all, std::span<const std::size_t> indices)
    : count(indices.size()),
      pixels(allocate_on_gpu<float>(count * kPixels)),
      labels(allocate_on_gpu<int>(count)) {
  std::vector<float> values;
  std::vector<int> truths;
  for (const std::size_t i : indices) {
    values.insert(values.end(), all[i].pixels.begin(), all[i].pixels.end());
    truths.push_back(all[i].label);
  }
  copy_to_gpu(pixels.get(), values);
  copy_to_gpu(labels.get(), truths);
}

GpuNetwork::GpuNetwork(Network start, std::size_t digits)
    : state_(allocate_on_gpu<float>(2 * Network::kParameters)),
      hidden_(allocate_on_gpu<float>(digits * kHidden)),
      logits_(allocate_on_gpu<float>(digits * kClasses)),
      hidden_back_(allocate_on_gpu<float>(digits * kHidden)),
      logits_back_(allocate_on_gpu<float>(digits * kClasses)),
      sums_(allocate_on_gpu<double>(2)) {
  std::vector<float> values;
  for (const auto& part : start.parts()) values.insert(values.end(), part.begin(), part.end());
  values.resize(2 * Network::kParameters);  // no momentum yet
  set_state(values);
  clear_sums();
}

GpuNetwork::Parts GpuNetwork::parts() const {
  return Network::parts_of({state_.get(), Network::kParameters});
}

void GpuNetwork::forward(const float* pixels, std::size_t count) {
  if (count == 0) return;  // a grid needs at least one block
  const auto [w1, b1, w2, b2] = parts();
  const auto blocks = static_cast<unsigned>(count);
  affine<<<blocks, kHidden>>>(w1.data(), b1.data(), pixels, kPixels, 0, hidden_.get());
  affine<<<blocks, kClasses>>>(w2.data(), b2.data(), hidden_.get(), kHidden, -INFINITY,
                               logits_.get());
}

void GpuNetwork::backward(const GpuDigits& digits, const Step& step, const Parts& gradients,
                          const std::function<void(std::size_t)>& ready) {
  const auto& [w1, b1, w2, b2] = gradients;
  const float* const pixels = digits.pixels.get() + step.first * kPixels;
  const float* const back = logits_back_.get();
  const auto blocks = static_cast<unsigned>(step.count);
  const int count = static_cast<int>(step.count);
  forward(pixels, step.count);
  if (count > 0) {
    compare<<<blocks, kClasses>>>(logits_.get(), digits.labels.get() + step.first,
                                  logits_back_.get(), sums());
  }
  sum_outer<<<kClasses, kHidden>>>(back, hidden_.get(), count, w2.data(), b2.data());
  ready(3);
  ready(2);
  if (count > 0) {
    pass_back<<<blocks, kHidden>>>(parts()[2].data(), back, hidden_.get(), hidden_back_.get());
  }
  sum_outer<<<kHidden, kPixels>>>(hidden_back_.get(), pixels, count, w1.data(), b1.data());
  ready(1);
  ready(0);
}

void GpuNetwork::descend(const Parts& gradients, float scale, float rate) {
  constexpr unsigned kThreads = 256;
  float* velocity = state_.get() + Network::kParameters;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const auto count = static_cast<unsigned>(gradients[p].size());
    step<<<(count + kThreads - 1) / kThreads, kThreads>>>(parts()[p].data(), velocity,
                                                          gradients[p].data(), count, scale, rate);
    velocity += count;
  }
  check(cudaGetLastError());  // of any kernel since the last step
}

void GpuNetwork::classify(const GpuDigits& digits) {
  if (digits.count == 0) return;
  const auto blocks = static_cast<unsigned>(digits.count);
  forward(digits.pixels.get(), digits.count);
  count_right<<<blocks, 1>>>(logits_.get(), digits.labels.get(), sums() + 1);
}

void GpuNetwork::clear_sums() {
  check(cudaMemset(sums(), 0, 2 * sizeof(double)));
}

std::vector<float> GpuNetwork::state() const {
  std::vector<float> values(2 * Network::kParameters);
  copy_to_host(values, state_.get());
  return values;
}

void GpuNetwork::set_state(const std::vector<float>& state) {
  copy_to_gpu(state_.get(), state);
}

}  // namespace digits
