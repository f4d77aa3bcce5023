// SPDX-License-Identifier: Apache-2.0
// Replaces the other files here in a build without the headers of NCCL or CUDA.
#include "collectives/backends/nccl/backend.h"
#include "ddp/error.h"

namespace ddp::internal {

bool can_use_nccl() noexcept {
  return false;
}

void require_nccl() {
  throw Error(ErrorKind::usage,
              "ddp: backend nccl: this libddp was built without it; build it where nccl.h and "
              "cuda.h are, with -DDDPRUN_NCCL=ON");
}

// These functions are called only after require_nccl(), which throws.
void check_nccl_options(const NcclOptions& /*options*/) {}

std::unique_ptr<Backend> make_nccl_backend(GroupContext /*context*/,
                                           std::unique_ptr<Backend> host) {
  return host;
}

std::vector<std::unique_ptr<Backend>> make_local_nccl_backends(
    std::span<const int> /*devices*/, std::chrono::milliseconds /*timeout*/) {
  return {};
}

void run_nccl_group(const std::function<void()>& calls) {
  calls();
}

void abort_together(const std::function<void()>& work) {
  work();
}

int local_gpu() {
  require_nccl();
  return 0;
}

std::vector<int> list_gpus() {
  require_nccl();
  return {};
}

void check_gpu(int /*device*/) {
  require_nccl();
}

}  // namespace ddp::internal
