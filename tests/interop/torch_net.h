// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Functions.h>
#include <cstdint>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

/// Numbers that have nothing to do with each other, the same in Python.
inline at::Tensor numbers(at::IntArrayRef sizes, double from) {
  const auto count = c10::multiply_integers(sizes);
  return (at::sin(at::arange(count, at::kDouble) * 1.37 + from) * 0.5).to(at::kFloat).view(sizes);
}

/// Every rank begins with others.
inline void initialize(const torch::nn::Module& module, int rank) {
  const at::NoGradGuard no_grad;
  double from = 100.0 * rank;
  for (const auto& parameter : module.parameters()) {
    parameter.copy_(numbers(parameter.sizes(), from));
    from += 1;
  }
}

/// The module that torch_training.py has, too.
struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::Linear frozen{128, 32};
  torch::nn::Linear head{32, 10};
  torch::nn::Linear other_head{32, 10};
  torch::nn::Linear no_head{32, 10};

  NetImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("frozen", frozen);
    register_module("head", head);
    register_module("other_head", other_head);
    register_module("no_head", no_head);
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
  }

  at::Tensor forward(const at::Tensor& input, bool other) {
    const at::Tensor features = at::relu(norm->forward(conv->forward(input)));
    const at::Tensor pooled = at::max_pool2d(features, 2).flatten(1);
    const at::Tensor hidden = at::relu(frozen->forward(pooled));
    return other ? other_head->forward(hidden) : head->forward(hidden);
  }
};
TORCH_MODULE(Net);
