// SPDX-License-Identifier: Apache-2.0
#include "torch_checks.h"

#include <ATen/DLConvertor.h>
#include <ATen/dlpack.h>
#include <c10/core/StreamGuard.h>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include "ddp/communication_hooks.h"
#include "ddp/dlpack.h"
#include "ddp/torch.h"
#include "torch_net.h"

namespace {

using at::Tensor;
using ddp::libtorch::DistributedDataParallel;
using Options = ddp::DistributedDataParallelOptions;

void check(bool right, const std::string& what) {
  if (!right) throw std::runtime_error("wrong: " + what);
}

template <class F>
void check_refused(const std::string& words, F call) {
  try {
    call();
  } catch (const ddp::Error& error) {
    check(error.kind() == ddp::ErrorKind::usage, std::string("the kind of: ") + error.what());
    return check(std::string(error.what()).find(words) != std::string::npos, error.what());
  }
  check(false, "not refused: " + words);
}

void check_tensors(ddp::ProcessGroup& group, at::Device device) {
  using ddp::libtorch::buffer;
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kChar, at::kByte,
                          at::kShort, at::kInt, at::kLong}) {
    if (device.is_cuda() && type == at::kShort) continue;  // NCCL has none
    const Tensor tensor = at::full({2, 3}, group.rank() + 1, at::device(device).dtype(type));
    group.all_reduce(buffer(tensor));
    const int wanted = group.size() * (group.size() + 1) / 2;
    check(tensor.to(at::kDouble).eq(wanted).all().item<bool>(), c10::toString(type));
  }
  const Tensor square = at::zeros({2, 3}, device);
  const std::string where = " on " + device.str() + " cannot be used: ";
  check_refused("a tensor of Float[3, 2]" + where + "it is not contiguous",
                [&] { buffer(square.t()); });
  check_refused("ComplexHalf[1]" + where + "ddp has no type for its elements",
                [&] { buffer(at::zeros({1}, at::device(device).dtype(at::kComplexHalf))); });
  check_refused("on meta cannot be used: it is neither on the CPU",
                [] { buffer(at::zeros({1}, at::device(at::kMeta))); });
  check_refused("it is not dense", [&] { buffer(square.to_sparse()); });
  check_refused("a tensor cannot be used: it is undefined", [] { buffer(Tensor()); });
}

/// With DLPack's own header, and a library that makes and takes its tensors.
void check_dlpack(ddp::ProcessGroup& group, at::Device device) {
  const Tensor tensor = at::full({2, 3}, group.rank() + 1, at::device(device).dtype(at::kDouble));
  const ddp::Buffer buffer = ddp::libtorch::buffer(tensor);
  DLManagedTensor* const managed = at::toDLPack(tensor);
  group.all_reduce(ddp::view(managed->dl_tensor, buffer.stream));
  managed->deleter(managed);
  const int wanted = group.size() * (group.size() + 1) / 2;
  check(tensor.eq(wanted).all().item<bool>(), "a sum in a tensor of DLPack");
  const int index = device.is_cuda() ? device.index() : 0;
  const Tensor back = at::fromDLPack(ddp::to_dlpack<DLManagedTensor>(buffer, index));
  check(back.data_ptr() == tensor.data_ptr() && back.device() == device &&
            back.equal(tensor.flatten()),
        "a tensor of a buffer");
}

/// Whether other ranks map this memory, too.
bool is_shared(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    if (begin <= address && address < end) return line.find("/memfd:ddp ") != std::string::npos;
  }
  return false;
}

/// Gradients are in memory of the group, and outlive it.
void check_memory(ddp::ProcessGroup& group, at::Device device) {
  torch::nn::Linear layer(40, 30);
  layer->to(device);
  {
    auto part = group.split(0);
    DistributedDataParallel model(*part, layer);
    model(at::ones({2, 40}, device)).sum().backward();
    const bool shares = device.is_cpu() && group.size() > 1;
    check(is_shared(layer->weight.grad().data_ptr()) == shares,
          "a gradient that ranks do not share");
  }
  check(layer->weight.grad().eq(2).all().item<bool>(), "a gradient after its group");
  layer->zero_grad(false);
  layer->forward(at::ones({3, 40}, device)).sum().backward();
  check(layer->weight.grad().eq(3).all().item<bool>(),
        "a gradient in the memory of a group that is gone");
}

/// A module's backward pass reports its errors, and its gradients are in the buckets.
void check_module(ddp::ProcessGroup& group, at::Device device) {
  torch::nn::Sequential layers(torch::nn::Linear(40, 30), torch::nn::ReLU(),
                               torch::nn::Linear(30, 20));
  initialize(*layers, group.rank());
  layers->to(device);
  Options hooked;
  if (device.is_cpu()) {
    hooked.hook = ddp::power_sgd(group, {.rows = ddp::libtorch::rows(*layers), .start_iter = 1});
  }
  {
    DistributedDataParallel model(group, layers, hooked);
    for (int pass = 0; pass < 3; ++pass) {
      const Tensor input = numbers({8, 40}, pass + group.rank()).to(device);
      model(input).square().mean().backward();
      check(model.statistics().all_reduces == 1, "the bucket of a pass");
      const Tensor gradient = layers[0]->parameters()[0].grad();
      const Tensor of_rank_0 = gradient.clone();
      group.broadcast(ddp::libtorch::buffer(of_rank_0));
      check(gradient.equal(of_rank_0), "a gradient like that of rank 0");
      layers->zero_grad(pass == 0);
    }
  }
  layers->zero_grad();
  layers->forward(at::ones({1, 40}, device))
      .sum()
      .backward();  // no hook is left, and the memory lives
  check(layers[2]->parameters()[1].grad().eq(1).all().item<bool>(), "a gradient of no bucket");
  Net net;
  net->to(device);
  DistributedDataParallel incomplete(group, net);
  const Tensor image = at::ones({2, 1, 8, 8}, device);
  check_refused("were not ready", [&] { incomplete(image, false).sum().backward(); });
  check_refused("in a pass that has begun", [&] { incomplete(image, false); });
  check_refused("is ready a second time", [&] { net->forward(image, false).sum().backward(); });
  check_refused("the module decides them", [&] {
    DistributedDataParallel(group, layers, Options{.gradient_type = ddp::DataType::float64});
  });
}

/// A wrapper that cannot be made leaves no hook behind: each would be that of a destroyed object.
void check_unwrapped(ddp::ProcessGroup& group, at::Device device) {
  torch::nn::Sequential layers(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
  layers->to(device);
  layers[1]->parameters()[1].mutable_grad() = at::zeros({2}, device).to_sparse();
  const Tensor sum = layers->forward(at::ones({5, 4}, device)).sum();  // has the places of hooks
  check_refused("a gradient has to be dense", [&] { DistributedDataParallel(group, layers); });
  for (const auto& parameter : layers->parameters()) {
    const auto node = torch::autograd::impl::grad_accumulator(parameter);
    check(node->post_hooks().empty(), "a hook of no wrapper");
  }
  layers->zero_grad();
  sum.backward();
  check(layers[1]->parameters()[1].grad().eq(5).all().item<bool>(), "a gradient without a wrapper");
}

/// The pass that failed has no end: those after it would have none, either.
void check_failed_pass(ddp::ProcessGroup& group, at::Device device) {
  torch::nn::Sequential layers(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
  layers->to(device);
  const Tensor input = at::ones({5, 4}, device);
  DistributedDataParallel model(group, layers, Options{.find_unused_parameters = true});
  const auto fails = [](const Tensor&) -> Tensor { throw std::runtime_error("a bad batch"); };
  const auto weight = layers[0]->parameters()[0];
  const auto hook = weight.register_hook(fails);
  try {
    model(input).sum().backward();
    throw std::logic_error("a backward pass without its error");
  } catch (const std::runtime_error&) {
    weight.remove_hook(hook);
  }
  check_refused("after a backward() that threw", [&] { model(input); });
  const at::NoGradGuard no_grad;
  model(input);
}

/// A gradient that the program has replaced is what a rank contributes that does not use it.
void check_replaced(ddp::ProcessGroup& group, at::Device device) {
  Net net;
  net->to(device);
  DistributedDataParallel model(group, net, Options{.find_unused_parameters = true});
  const Tensor image = at::ones({2, 1, 8, 8}, device);
  model(image, false).sum().backward();
  net->head->bias.mutable_grad() = at::full({10}, 7.0, device);
  model(image, group.rank() > 0).sum().backward();
  const double wanted = 7 + 2.0 / group.size();  // rank 0 has added 2
  const Tensor gradient = net->head->bias.grad();
  check(at::allclose(gradient, at::full({10}, wanted, device)),
        "the average of a replaced gradient");
}

/// Gradients are averaged in the order of the stream that was current when the wrapper was made.
void check_stream(ddp::ProcessGroup& group, at::Device device) {
  if (device.is_cpu()) return;
  torch::nn::Linear layer(4, 3);
  layer->to(device);
  const Tensor input = at::ones({5, 4}, device);
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  const c10::StreamGuard other(cuda.getStreamFromGlobalPool(device));
  other.original_stream().synchronize();
  DistributedDataParallel model(group, layer);
  model(input).sum().backward();
  check(layer->bias.grad().eq(5).all().item<bool>(), "a gradient of a stream of the program");
  const Tensor sum = model(input).sum();
  const c10::StreamGuard usual(other.original_stream());
  check_refused("forward() in a stream that is not that in which", [&] { model(input); });
  check_refused("backward() in a stream that is not that in which", [&] { sum.backward(); });
}

}  // namespace

void check_torch(ddp::ProcessGroup& group, at::Device device) {
  check_tensors(group, device);
  check_dlpack(group, device);
  check_memory(group, device);
  check_module(group, device);
  check_unwrapped(group, device);
  check_failed_pass(group, device);
  check_replaced(group, device);
  check_stream(group, device);
}
