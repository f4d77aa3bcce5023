// SPDX-License-Identifier: Apache-2.0
#include "ddp/distributed_data_parallel.h"

#include <string>
#include <utility>

#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/group/agreement.h"
#include "collectives/group/group_access.h"
#include "collectives/training/broadcast_together.h"
#include "collectives/training/reducer.h"

namespace ddp {
namespace {

using Options = DistributedDataParallelOptions;

[[noreturn]] void refuse(const ProcessGroup& group, const std::string& what) {
  throw Error(ErrorKind::usage,
              "ddp: rank " + std::to_string(internal::GroupAccess::named(group, group.rank())) +
                  ": DistributedDataParallel " + what);
}

void check(const ProcessGroup& group, const std::vector<Buffer>& parameters,
           const std::vector<Buffer>& gradients, const Options& options) {
  if (parameters.empty()) refuse(group, "of no parameters");
  if (options.first_bucket_bytes == 0 || options.bucket_bytes == 0) {
    refuse(group, "with buckets of 0 bytes: at least 1 is needed");
  }
  const Buffer& first = parameters.front();
  if (first.on_device && !options.allocate && group.backend() != "nccl") {
    refuse(group, "of parameters on a device over " + group.backend() +
                      " without the option allocate: it is to give device memory for their "
                      "gradients");
  }
  if (first.on_device && options.uneven_inputs) {
    refuse(group, "of parameters on a device with uneven_inputs: they have to be in host memory");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string which = "parameter " + std::to_string(i);
    if (parameters[i].on_device != first.on_device || parameters[i].stream != first.stream) {
      refuse(group, "whose " + which + " is not in the memory and of the stream of parameter 0");
    }
    if (!internal::allows(gradients[i].type, ReduceOp::avg)) {
      refuse(group, "whose " + which + " has gradients of " + internal::name(gradients[i].type) +
                        ": only floating-point types have an "
                        "average");
    }
  }
}

std::vector<std::string> lines_of(const std::vector<Buffer>& parameters,
                                  const std::vector<Buffer>& gradients, const Options& options) {
  std::vector<std::string> lines = {
      "first_bucket_bytes " + std::to_string(options.first_bucket_bytes),
      "bucket_bytes " + std::to_string(options.bucket_bytes),
      std::string("find_unused_parameters ") + (options.find_unused_parameters ? "on" : "off"),
      std::string("allocate ") + (options.allocate ? "given" : "none"),
      std::string("hook ") + (options.hook ? "given" : "none"),
      std::string("uneven_inputs ") + (options.uneven_inputs ? "on" : "off")};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    lines.push_back("parameter " + std::to_string(i) + " " + internal::describe(parameters[i]));
    if (gradients[i].type != parameters[i].type) {
      lines.back() += std::string(" with gradients of ") + internal::name(gradients[i].type);
    }
  }
  for (std::size_t i = 0; i < options.buffers.size(); ++i) {
    lines.push_back("buffer " + std::to_string(i) + " " + internal::describe(options.buffers[i]));
  }
  return lines;
}

std::vector<Buffer> gradients_of(std::vector<Buffer> parameters, const Options& options) {
  for (Buffer& parameter : parameters) {
    parameter.type = options.gradient_type.value_or(parameter.type);
  }
  return parameters;
}

/// Parameters and buffers.
std::vector<Buffer> state_of(const std::vector<Buffer>& parameters, const Options& options) {
  std::vector<Buffer> state = parameters;
  state.insert(state.end(), options.buffers.begin(), options.buffers.end());
  return state;
}

/// Checks everything, and gives every rank the state of rank 0. That connects the group on the
/// parameters' device, where the memory for gradients should be, too. Returns the gradients,
/// without memory.
std::vector<Buffer> prepare(ProcessGroup& group, const std::vector<Buffer>& parameters,
                            const Options& options) {
  std::vector<Buffer> gradients = gradients_of(parameters, options);
  check(group, parameters, gradients, options);
  internal::check_same_lines(group, "a DistributedDataParallel",
                             lines_of(parameters, gradients, options));
  internal::broadcast_together(internal::GroupAccess::member(group), state_of(parameters, options),
                               0);
  return gradients;
}

}  // namespace

struct DistributedDataParallel::Impl {
  Impl(ProcessGroup& group, const std::vector<Buffer>& parameters, const Options& options)
      : reducer(group, prepare(group, parameters, options), options),
        buffers(options.buffers),
        state(state_of(parameters, options)) {}

  void broadcast_buffers(int root) { internal::broadcast_together(reducer.group(), buffers, root); }
  void join();

  internal::Reducer reducer;
  const std::vector<Buffer> buffers;
  const std::vector<Buffer> state;
};

void DistributedDataParallel::Impl::join() {
  auto& others = reducer.announcements();
  if (!others) reducer.refuse("join() of a model without the option uneven_inputs");
  reducer.check_between_passes("join()");
  if (!reducer.is_averaging()) reducer.refuse("join() within no_sync(): it has to end before");
  while (const auto step = others->ask()) {
    if (*step == internal::NextStep::pass) reducer.pass_of_others();
    if (*step == internal::NextStep::buffers) broadcast_buffers(others->last_rank());
  }
  internal::broadcast_together(reducer.group(), state, others->last_rank());
}

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group,
                                                 const std::vector<Buffer>& parameters,
                                                 const Options& options)
    : impl_(std::make_unique<Impl>(group, parameters, options)) {}

DistributedDataParallel::~DistributedDataParallel() = default;

std::size_t DistributedDataParallel::size() const noexcept {
  return impl_->reducer.size();
}

Buffer DistributedDataParallel::gradient(std::size_t parameter) const {
  return impl_->reducer.gradient(parameter);
}

Buffer DistributedDataParallel::host_gradient(std::size_t parameter, DataType type) const {
  const Buffer& gradient = impl_->reducer.gradient(parameter);
  if (gradient.type != type || gradient.on_device) {
    impl_->reducer.refuse("the gradient of parameter " + std::to_string(parameter) + " as " +
                          internal::name(type) + " in host memory: it is " +
                          internal::name(gradient.type) +
                          (gradient.on_device ? " on a device" : ""));
  }
  return gradient;
}

void DistributedDataParallel::gradient_ready(std::size_t parameter) {
  impl_->reducer.gradient_ready(parameter);
}

void DistributedDataParallel::finish() {
  impl_->reducer.finish();
}

bool DistributedDataParallel::was_averaged(std::size_t parameter) const {
  return impl_->reducer.was_averaged(parameter);
}

void DistributedDataParallel::broadcast_buffers() {
  impl_->reducer.announce_buffers();
  const auto& announcements = impl_->reducer.announcements();
  impl_->broadcast_buffers(announcements ? announcements->last_rank() : 0);
}

void DistributedDataParallel::join() {
  impl_->join();
}

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() {
  impl_->reducer.begin_no_sync();
  return NoSync(this);
}

bool DistributedDataParallel::is_averaging() const noexcept {
  return impl_->reducer.is_averaging();
}

DistributedDataParallel::NoSync::~NoSync() {
  if (of_ != nullptr) of_->impl_->reducer.end_no_sync();
}

const DistributedDataParallel::Statistics& DistributedDataParallel::statistics() const noexcept {
  return impl_->reducer.statistics();
}

std::vector<std::vector<std::size_t>> DistributedDataParallel::buckets() const {
  return impl_->reducer.buckets();
}

}  // namespace ddp
