// SPDX-License-Identifier: Apache-2.0
// The part of ddp for C++ programs that use libtorch of PyTorch 2 (tested with 2.11 and 2.15). No
// other header of ddp needs libtorch, and libddp.so does not.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/error.h"
#include "ddp/process_group.h"
#include "ddp/types.h"

namespace ddp::internal {

inline std::optional<DataType> type_of_dtype(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return DataType::float16;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kFloat:
      return DataType::float32;
    case at::kDouble:
      return DataType::float64;
    case at::kChar:
      return DataType::int8;
    case at::kByte:
      return DataType::uint8;
    case at::kShort:
      return DataType::int16;
    case at::kUInt16:
      return DataType::uint16;
    case at::kInt:
      return DataType::int32;
    case at::kUInt32:
      return DataType::uint32;
    case at::kLong:
      return DataType::int64;
    case at::kUInt64:
      return DataType::uint64;
    case at::kBool:
      return DataType::boolean;
    case at::kFloat8_e4m3fn:
      return DataType::float8_e4m3;
    case at::kFloat8_e5m2:
      return DataType::float8_e5m2;
    case at::kComplexFloat:
      return DataType::complex64;
    case at::kComplexDouble:
      return DataType::complex128;
    default:
      return std::nullopt;
  }
}

/// Says why a tensor's memory cannot be a buffer; empty if it can.
inline std::string why_no_memory(const at::Tensor& tensor) {
  if (!tensor.defined()) return "it is undefined";
  if (tensor.layout() != at::kStrided) return "it is not dense";
  if (!tensor.is_cpu() && !tensor.is_cuda()) return "it is neither on the CPU nor on a CUDA device";
  if (!tensor.is_contiguous()) return "it is not contiguous";
  return {};
}

[[noreturn]] inline void refuse_tensor(const at::Tensor& tensor, const std::string& why) {
  std::ostringstream text;
  text << "ddp: a tensor ";
  if (tensor.defined()) {
    text << "of " << tensor.scalar_type() << tensor.sizes() << " on " << tensor.device() << " ";
  }
  text << "cannot be used: " << why;
  throw Error(ErrorKind::usage, text.str());
}

inline Buffer buffer_of(const at::Tensor& tensor, std::size_t count, DataType type) {
  if (const std::string why = why_no_memory(tensor); !why.empty()) refuse_tensor(tensor, why);
  if (tensor.is_cpu()) return {tensor.data_ptr(), count, type};
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  auto* const stream = device.getStream(tensor.device()).native_handle();
  return {tensor.data_ptr(), count, type, static_cast<CUstream_st*>(stream)};
}

/// Returns the elements of a tensor of any dtype as bytes.
inline Buffer bytes_of_tensor(const at::Tensor& tensor) {
  return buffer_of(tensor, tensor.defined() ? tensor.nbytes() : 0, DataType::uint8);
}

}  // namespace ddp::internal

/// PyTorch's tensors and modules in ddp. (A namespace named torch would hide PyTorch's within ddp.)
namespace ddp::libtorch {

/// Returns the elements of a tensor, for calls of a ProcessGroup: group.all_reduce(buffer(tensor)).
/// It does not keep the tensor alive. On a CUDA device the call is ordered with the current stream
/// of the device. Errors: usage (names dtype, shape and device, and what is wrong: the tensor is
/// undefined, not dense, on another kind of device or not contiguous, or ddp has no type for its
/// dtype).
inline Buffer buffer(const at::Tensor& tensor) {
  if (!tensor.defined()) internal::refuse_tensor(tensor, "it is undefined");
  const auto type = internal::type_of_dtype(tensor.scalar_type());
  if (!type) internal::refuse_tensor(tensor, "ddp has no type for its elements");
  return internal::buffer_of(tensor, static_cast<std::size_t>(tensor.numel()), *type);
}

}  // namespace ddp::libtorch

namespace ddp::internal {

/// The defined tensors of a list, each once.
inline std::vector<at::Tensor> each_once(const std::vector<at::Tensor>& tensors) {
  std::unordered_set<const void*> seen;
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(tensor);
  }
  return all;
}

inline std::vector<at::Tensor> parameters_of(const ::torch::nn::Module& module, bool trained) {
  std::vector<at::Tensor> all = each_once(module.parameters());
  std::erase_if(all, [&](const at::Tensor& one) { return one.requires_grad() != trained; });
  return all;
}

/// A DistributedDataParallel of a module: autograd accumulates gradients in its buckets, and
/// reports when they are ready.
class ModuleReducer {
  struct Memory {
    std::shared_ptr<void> data;
    std::size_t bytes;
  };

 public:
  ModuleReducer(ProcessGroup& group, const ::torch::nn::Module& module,
                const DistributedDataParallelOptions& options)
      : parameters_(parameters_of(module, true)),
        buffers_(each_once(module.buffers())),
        ready_(parameters_.size()),
        finds_unused_(options.find_unused_parameters),
        model_(group, buffers_of_parameters(), completed(group, options)) {
    std::vector<Work> works;
    for (const at::Tensor& frozen : parameters_of(module, false)) {
      works.push_back(group.ibroadcast(bytes_of_tensor(frozen)));
    }
    for (const Work& work : works) work.wait();
    const at::NoGradGuard no_grad;
    for (std::size_t p = 0; p < parameters_.size(); ++p) adopt(p);
  }
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;

  ddp::DistributedDataParallel& model() { return model_; }

  /// Broadcasts buffers as PyTorch does: not after a forward without gradients or in no_sync().
  void before_forward() {
    if (finishes_ && c10::GradMode::is_enabled()) {
      throw Error(
          ErrorKind::usage,
          "ddp: forward() after a backward() that threw before all gradients were computed: "
          "gradients would not be averaged any more; make a new DistributedDataParallel");
    }
    const bool broadcasts = syncs_buffers_ && !buffers_.empty();
    if (broadcasts || c10::GradMode::is_enabled()) check_stream("forward()");
    if (broadcasts) model_.broadcast_buffers();
    syncs_buffers_ = c10::GradMode::is_enabled() && model_.is_averaging();
  }

 private:
  std::vector<Buffer> buffers_of_parameters() const {
    std::vector<Buffer> all;
    for (const at::Tensor& parameter : parameters_) all.push_back(libtorch::buffer(parameter));
    return all;
  }

  DistributedDataParallelOptions completed(ProcessGroup& group,
                                           DistributedDataParallelOptions options) {
    if (options.allocate || options.gradient_type || !options.buffers.empty()) {
      throw Error(ErrorKind::usage,
                  "ddp: a DistributedDataParallel of a module with one of the options allocate, "
                  "gradient_type and buffers: the module decides them");
    }
    for (const at::Tensor& buffer : buffers_) options.buffers.push_back(bytes_of_tensor(buffer));
    options.allocate = [this, &group](std::size_t bytes) {
      memory_.push_back({allocate(group, bytes), bytes});
      return memory_.back().data;
    };
    return options;
  }

  /// Takes memory of the group, in which its calls are fastest, if it is on the parameters' kind of
  /// device: nccl's is on a GPU, the others' is not.
  std::shared_ptr<void> allocate(ProcessGroup& group, std::size_t bytes) const {
    const at::Device device = parameters_.front().device();
    if (device.is_cuda() == (group.backend() == "nccl")) return group.allocate(bytes);
    const auto like = at::TensorOptions(device).dtype(at::kByte);
    const at::Tensor own = at::zeros({static_cast<std::int64_t>(bytes)}, like);
    return {own.data_ptr(), [own](void* /*data*/) {}};
  }

  /// Lets autograd accumulate this parameter's gradient in its bucket.
  void adopt(std::size_t p) {
    gradients_.push_back(tensor_at(model_.gradient(p).data, parameters_[p]));
    if (parameters_[p].grad().defined()) place(p);
    const auto node = ::torch::autograd::impl::grad_accumulator(parameters_[p]);
    auto ready = [this, p](const auto& outputs, const auto& /*inputs*/) {
      gradient_ready(p);
      return outputs;
    };
    using Hook = ::torch::autograd::utils::LambdaPostHook;
    const auto hook = node->add_post_hook(std::make_unique<Hook>(std::move(ready)));
    const auto remove = [node, hook](void* /*nothing*/) { node->del_post_hook(hook); };
    hooks_.emplace_back(nullptr, remove);
  }

  /// Returns a tensor like the parameter, at this address, that keeps the bucket alive. It is not a
  /// view: optimizers detach gradients, which views refuse.
  at::Tensor tensor_at(void* address, const at::Tensor& parameter) const {
    for (const Memory& memory : memory_) {
      auto* const begin = static_cast<char*>(memory.data.get());
      if (address < begin || address >= begin + memory.bytes) continue;
      const auto keep = [data = memory.data](void* /*address*/) {};
      return at::from_blob(address, parameter.sizes(), keep, parameter.options());
    }
    return at::empty_like(parameter);  // it has no elements
  }

  /// Moves a gradient into its bucket, if autograd or the program has replaced it.
  void place(std::size_t p) {
    at::Tensor& gradient = parameters_[p].mutable_grad();
    if (gradient.is_same(gradients_[p])) return;
    if (gradient.layout() != at::kStrided) refuse_tensor(gradient, "a gradient has to be dense");
    gradients_[p].copy_(gradient);
    gradient = gradients_[p];
  }

  /// Sets this rank's part of the average if only other ranks used the parameter.
  void contribute_unused(std::size_t p) {
    if (parameters_[p].grad().defined()) {
      place(p);
    } else {
      gradients_[p].zero_();
    }
  }

  void gradient_ready(std::size_t p) {
    const at::NoGradGuard no_grad;
    if (parameters_[p].grad().defined()) {
      place(p);
    } else {  // a backward function may return no gradient
      gradients_[p].zero_();
      parameters_[p].mutable_grad() = gradients_[p];
    }
    if (!finishes_) {
      finishes_ = true;
      ::torch::autograd::Engine::get_default_engine().queue_callback([this] { finish(); });
    }
    ready_[p] = true;
    model_.gradient_ready(p);
  }

  /// Throws unless the current stream is the one in which this was made: the calls are ordered with
  /// that. Hooks run there, too, but callbacks at the end of a pass run in the stream of
  /// backward().
  void check_stream(const char* what) const {
    if (libtorch::buffer(parameters_.front()).stream == model_.gradient(0).stream) return;
    throw Error(ErrorKind::usage,
                std::string("ddp: ") + what +
                    " in a stream that is not that in which the DistributedDataParallel was made: "
                    "calls would not be ordered with the pass");
  }

  /// Averages when autograd has computed all gradients.
  void finish() {
    check_stream("backward()");
    finishes_ = false;
    const at::NoGradGuard no_grad;
    for (std::size_t p = 0; finds_unused_ && p < parameters_.size(); ++p) {
      if (!ready_[p]) contribute_unused(p);
    }
    const std::vector<bool> ready = std::exchange(ready_, std::vector<bool>(ready_.size()));
    model_.finish();
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      if (!ready[p] && model_.was_averaged(p)) parameters_[p].mutable_grad() = gradients_[p];
    }
  }

  const std::vector<at::Tensor> parameters_;
  const std::vector<at::Tensor> buffers_;
  std::vector<Memory> memory_;                ///< the buckets'
  std::vector<at::Tensor> gradients_;         ///< in buckets
  std::vector<std::shared_ptr<void>> hooks_;  ///< autograd's; they are removed with this
  std::vector<bool> ready_;                   ///< in this pass
  bool finishes_ = false;                     ///< a callback at the end of this pass calls finish()
  bool syncs_buffers_ = true;
  const bool finds_unused_;
  ddp::DistributedDataParallel model_;
};

}  // namespace ddp::internal

namespace ddp::libtorch {

/// Returns the number of rows of each trained parameter, for power_sgd: its first dimension, if it
/// has two or more, else 0.
inline std::vector<std::size_t> rows(const ::torch::nn::Module& module) {
  std::vector<std::size_t> all;
  for (const at::Tensor& parameter : internal::parameters_of(module, true)) {
    all.push_back(parameter.dim() < 2 ? 0 : static_cast<std::size_t>(parameter.size(0)));
  }
  return all;
}

/// A module whose copies on all ranks are trained together, as PyTorch's DistributedDataParallel
/// does it in Python:
///
///     Net net;                                            // a TORCH_MODULE, or a std::shared_ptr
///     ddp::libtorch::DistributedDataParallel model(group, net);
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     for (...) {
///       optimizer.zero_grad();
///       loss(model(input), target).backward();            // gradients are averages afterwards
///       optimizer.step();
///     }
///
/// The parameters that require gradients when this is made are trained. Gradients are stored in the
/// buckets, and averaged during backward(), which throws the errors of ddp. forward() first gives
/// every rank the module's buffers of rank 0, such as the running means of BatchNorm, unless the
/// forward pass before was without gradients or within no_sync().
///
/// If backward() threw before all gradients were computed, make a new DistributedDataParallel:
/// forward() of this one throws (usage). On a CUDA device all passes use the stream that is current
/// when this is made: forward() and backward() in another stream throw (usage). A forward pass
/// without gradients may be in any stream if it gives the ranks no buffers.
///
/// The group, which may be moved, must outlive this object; the module's parameters and buffers
/// must not be replaced, moved to a device or get another dtype. Thread: one at a time.
template <class M>
class DistributedDataParallel {
 public:
  /// Gives every rank parameters and buffers of rank 0. The options allocate, gradient_type and
  /// buffers are not for modules. Errors: those of ddp::DistributedDataParallel and buffer(), usage
  /// (such an option).
  DistributedDataParallel(ProcessGroup& group, std::shared_ptr<M> module,
                          const DistributedDataParallelOptions& options = {})
      : module_(std::move(module)),
        reducer_(std::make_unique<internal::ModuleReducer>(group, *module_, options)) {}
  DistributedDataParallel(ProcessGroup& group, const ::torch::nn::ModuleHolder<M>& module,
                          const DistributedDataParallelOptions& options = {})
      : DistributedDataParallel(group, module.ptr(), options) {}

  /// The module's forward pass. Errors: those of the module and of the group, usage (see above).
  template <class... Args>
  auto forward(Args&&... arguments) {
    reducer_->before_forward();
    return module_->forward(std::forward<Args>(arguments)...);
  }
  template <class... Args>
  auto operator()(Args&&... arguments) {
    return forward(std::forward<Args>(arguments)...);
  }

  /// The same functions as in ddp::DistributedDataParallel: no_sync() lets gradients accumulate,
  /// join() says that this rank has no more inputs, statistics() is the cost of the last backward
  /// pass that averaged.
  [[nodiscard]] ddp::DistributedDataParallel::NoSync no_sync() {
    return reducer_->model().no_sync();
  }
  void join() { reducer_->model().join(); }
  const DistributedDataParallelStatistics& statistics() const {
    return reducer_->model().statistics();
  }

  /// The module that was passed to the constructor.
  M& module() const { return *module_; }

 private:
  std::shared_ptr<M> module_;
  std::unique_ptr<internal::ModuleReducer> reducer_;
};

}  // namespace ddp::libtorch
