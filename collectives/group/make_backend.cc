// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/make_backend.h"

#include <utility>

#include "collectives/backends/cpu/backend.h"
#include "collectives/backends/local/backend.h"
#include "collectives/backends/mpi/backend.h"
#include "collectives/backends/nccl/backend.h"
#include "ddp/error.h"

namespace ddp::internal {

std::string choose_backend(const std::string& wanted) {
  if (wanted.empty()) return can_use_nccl() ? "nccl" : "cpu";
  if (wanted == "nccl") require_nccl();
  if (wanted == "gloo") return "cpu";  // the name that programs for torch.distributed use
  if (wanted == "cpu" || wanted == "mpi" || wanted == "nccl") return wanted;
  throw Error(ErrorKind::usage,
              "ddp: backend " + wanted + " is none of cpu (or gloo), mpi and nccl");
}

void check_options(const Options& options, const std::string& backend) {
  if (backend == "nccl") check_nccl_options(options.nccl);
  if (!options.device) return;
  if (backend != "nccl") {
    throw Error(ErrorKind::usage, "ddp: Options::device " + std::to_string(*options.device) +
                                      " needs backend nccl, not " + backend);
  }
  require_nccl();
  check_gpu(*options.device);
}

std::unique_ptr<Backend> make_host_backend(GroupContext context) {
  return context.size == 1 ? make_local_backend("cpu") : make_lazy_cpu_backend(std::move(context));
}

std::unique_ptr<Backend> make_backend(const std::string& chosen, GroupContext context) {
  if (chosen == "nccl") {
    auto host = make_host_backend(context);
    return make_nccl_backend(std::move(context), std::move(host));
  }
  if (context.size == 1) return make_local_backend(chosen);
  if (chosen == "mpi") return make_mpi_backend(std::move(context));
  return make_cpu_backend(std::move(context));
}

std::unique_ptr<Backend> split_backend(Backend& whole, const std::optional<GroupContext>& part,
                                       const std::vector<int>& members) {
  return whole.split(part ? &*part : nullptr, members,
                     [&part] { return make_host_backend(*part); });
}

}  // namespace ddp::internal
