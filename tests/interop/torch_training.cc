// SPDX-License-Identifier: Apache-2.0
// A module of libtorch trained with ddp/torch.h: prints what torch_training.py prints with
// PyTorch's own DistributedDataParallel.
//   ddprun --nproc_per_node 4 torch_training DIGITS.csv [cuda]
//   ddprun --nproc_per_node 2 torch_training bench STEPS [cuda]
// With cuda, tensors are on the GPU of LOCAL_RANK and the backend is nccl.
#include <ATen/Context.h>
#include <ATen/DLConvertor.h>
#include <ATen/Functions.h>
#include <ATen/dlpack.h>
#include <algorithm>
#include <c10/core/StreamGuard.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <string>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <vector>

#include "ddp/communication_hooks.h"
#include "ddp/dlpack.h"
#include "ddp/local_devices.h"
#include "ddp/torch.h"

namespace {

using at::Tensor;
using ddp::libtorch::DistributedDataParallel;
using Options = ddp::DistributedDataParallelOptions;

constexpr std::int64_t kBatch = 96;  ///< of all ranks

/// Of this rank; the program is not linked with PyTorch's library for CUDA, which is large.
at::Device choose_device(bool on_cuda) {
  if (!on_cuda) return at::kCPU;
  if (dlopen("libtorch_cuda.so", RTLD_NOW) == nullptr) throw std::runtime_error(dlerror());
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(ddp::local_device()));
  at::globalContext().setAllowTF32CuDNN(false);  // losses are compared with those of the CPU
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

ddp::ProcessGroup make_group(at::Device device) {
  return ddp::init_process_group({.backend = device.is_cuda() ? "nccl" : "gloo"});
}

/// Numbers that have nothing to do with each other, the same in Python.
Tensor numbers(at::IntArrayRef sizes, double from) {
  const auto count = c10::multiply_integers(sizes);
  return (at::sin(at::arange(count, at::kDouble) * 1.37 + from) * 0.5).to(at::kFloat).view(sizes);
}

/// Every rank begins with others.
void initialize(const torch::nn::Module& module, int rank) {
  const at::NoGradGuard no_grad;
  double from = 100.0 * rank;
  for (const auto& parameter : module.parameters()) {
    parameter.copy_(numbers(parameter.sizes(), from));
    from += 1;
  }
}

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

  Tensor forward(const Tensor& input, bool other) {
    const Tensor features = at::relu(norm->forward(conv->forward(input)));
    const Tensor pooled = at::max_pool2d(features, 2).flatten(1);
    const Tensor hidden = at::relu(frozen->forward(pooled));
    return other ? other_head->forward(hidden) : head->forward(hidden);
  }
};
TORCH_MODULE(Net);

struct Digits {
  Tensor images;
  Tensor labels;

  Digits(const std::string& path, at::Device device) {
    std::ifstream file(path);
    std::vector<float> all;
    for (std::string field; std::getline(file, field, all.size() % 65 == 64 ? '\n' : ',');) {
      all.push_back(std::stof(field));
    }
    if (all.empty()) throw std::runtime_error("cannot read " + path);
    const Tensor table = at::from_blob(all.data(), {std::int64_t(all.size() / 65), 65}).clone();
    images = (table.narrow(1, 0, 64) / 16).view({-1, 1, 8, 8}).to(device);
    labels = table.select(1, 64).to(device, at::kLong);
  }
};

class Trainer {
 public:
  Trainer(std::string name, ddp::ProcessGroup& group, const Digits& digits, const Options& options)
      : name_(std::move(name)),
        group_(group),
        digits_(digits),
        net_(made(group.rank(), digits.images.device())),
        model_(group, net_, options),
        optimizer_(net_->parameters(), rates()) {}

  /// The loss of this rank's part of a batch, without a step.
  Tensor loss(std::int64_t batch, bool other = false) {
    const std::int64_t part = kBatch / group_.size();
    const std::int64_t first = batch * kBatch + group_.rank() * part;
    const Tensor out = model_(digits_.images.narrow(0, first, part), other);
    return at::cross_entropy_loss(out, digits_.labels.narrow(0, first, part));
  }

  void step(std::int64_t batch, bool other = false) {
    optimizer_.zero_grad();
    const Tensor now = loss(batch, other);
    now.backward();
    optimizer_.step();
    print("loss", now.item<double>());
  }

  void accumulate(std::int64_t batch) {
    optimizer_.zero_grad();
    {
      const auto scope = model_.no_sync();
      loss(batch).backward();
    }
    const Tensor now = loss(batch + 1);
    now.backward();
    optimizer_.step();
    print("loss", now.item<double>());
  }

  void print_state() {
    double sum = 0;
    for (const auto& parameter : net_->parameters()) sum += parameter.abs().sum().item<double>();
    print("parameters", sum);
    print("gradient of no_head", net_->no_head->weight.grad().defined() ? 1 : 0);
  }

  void evaluate() {
    net_->eval();
    const at::NoGradGuard no_grad;
    print("held out", loss(15).item<double>());
    print("mean", net_->norm->running_mean.sum().item<double>());
  }

  DistributedDataParallel<NetImpl>& model() { return model_; }

 private:
  static Net made(int rank, at::Device device) {
    Net net;
    initialize(*net, rank);
    net->to(device);
    return net;
  }
  static torch::optim::SGDOptions rates() { return torch::optim::SGDOptions(0.1).momentum(0.9); }

  void print(const char* what, double value) {
    std::printf("%s, %d ranks, rank %d: %s %.9g\n", name_.c_str(), group_.size(), group_.rank(),
                what, value);
  }

  const std::string name_;
  ddp::ProcessGroup& group_;
  const Digits& digits_;
  Net net_;
  DistributedDataParallel<NetImpl> model_;
  torch::optim::SGD optimizer_;
};

void train(ddp::ProcessGroup& group, const Digits& digits) {
  const Options unused{.find_unused_parameters = true};
  Trainer plain("plain", group, digits, unused);
  for (int batch = 0; batch < 12; ++batch) plain.step(batch);
  plain.evaluate();
  plain.print_state();

  Trainer accumulating("no_sync", group, digits, unused);
  for (int batch = 0; batch < 8; batch += 2) accumulating.accumulate(batch);
  accumulating.print_state();

  Trainer heads("unused", group, digits, unused);
  for (int batch = 0; batch < 6; ++batch) heads.step(batch, batch > 1 && batch % 3 == group.rank());
  heads.print_state();

  if (digits.images.is_cuda()) return;  // uneven_inputs are for host memory
  Trainer uneven("join", group, digits, {.find_unused_parameters = true, .uneven_inputs = true});
  for (int batch = 0; batch < 2 + group.rank(); ++batch) uneven.step(batch);
  uneven.model().join();
  uneven.print_state();
}

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

void run(const std::string& path, at::Device device) {
  auto group = make_group(device);
  const Digits digits(path, device);
  check_tensors(group, device);
  check_dlpack(group, device);
  check_memory(group, device);
  check_module(group, device);
  check_unwrapped(group, device);
  check_failed_pass(group, device);
  check_replaced(group, device);
  check_stream(group, device);
  for (const int size : {1, 2, 4}) {
    if (size > group.size()) break;
    auto part = group.split(group.rank() < size ? 0 : -1);
    if (part) train(*part, digits);
  }
}

/// The median time of a step, of rank 0.
void bench(int steps, at::Device device) {
  auto group = make_group(device);
  torch::nn::Sequential layers(torch::nn::Linear(784, 1024), torch::nn::ReLU(),
                               torch::nn::Linear(1024, 1024), torch::nn::ReLU(),
                               torch::nn::Linear(1024, 10));
  initialize(*layers, 0);
  layers->to(device);
  DistributedDataParallel model(group, layers);
  torch::optim::SGD optimizer(layers->parameters(), torch::optim::SGDOptions(0.01));
  const Tensor input = numbers({32, 784}, 0).to(device);
  const Tensor labels = at::arange(32, device) % 10;
  const c10::impl::VirtualGuardImpl hardware(device.type());
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    group.barrier();  // of the hosts: the last step has ended
    const auto began = std::chrono::steady_clock::now();
    optimizer.zero_grad();
    at::cross_entropy_loss(model(input), labels).backward();
    optimizer.step();
    if (device.is_cuda()) hardware.synchronizeDevice(device.index());
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
            .count());
  }
  std::sort(times.begin(), times.end());
  if (group.rank() == 0) std::printf("%.3f\n", times[times.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    const bool on_cuda = !words.empty() && words.back() == "cuda";
    if (on_cuda) words.pop_back();
    const bool is_bench = words.size() == 2 && words[0] == "bench";
    if (!is_bench && words.size() != 1) {
      throw std::runtime_error("torch_training DIGITS.csv [cuda], or bench STEPS [cuda]");
    }
    const at::Device device = choose_device(on_cuda);
    is_bench ? bench(std::stoi(words[1]), device) : run(words[0], device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
