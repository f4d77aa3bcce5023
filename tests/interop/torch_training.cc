// SPDX-License-Identifier: Apache-2.0
// A module of libtorch trained with ddp/torch.h: prints what torch_training.py prints with
// PyTorch's own DistributedDataParallel.
//   ddprun --nproc_per_node 4 torch_training DIGITS.csv [cuda]
//   ddprun --nproc_per_node 2 torch_training bench STEPS [cuda]
// With cuda, tensors are on the GPU of LOCAL_RANK and the backend is nccl.
#include <ATen/Context.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <string>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/sgd.h>
#include <vector>

#include "ddp/local_devices.h"
#include "ddp/torch.h"
#include "torch_checks.h"
#include "torch_net.h"

namespace {

using at::Tensor;
using ddp::libtorch::DistributedDataParallel;
using Options = ddp::DistributedDataParallelOptions;

constexpr std::int64_t kBatch = 96;  ///< of all ranks

/// This rank's device. The program is not linked with PyTorch's library for CUDA, which is large.
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

void run(const std::string& path, at::Device device) {
  auto group = make_group(device);
  const Digits digits(path, device);
  check_torch(group, device);
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
