// SPDX-License-Identifier: Apache-2.0
#include "ddp/local_devices.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "collectives/backends/nccl/backend.h"
#include "collectives/group/group_member.h"

namespace ddp {
namespace {

/// Checks the devices, and returns them; all of this process if the list is empty.
std::vector<int> check_devices(const std::vector<int>& devices) {
  internal::require_nccl();
  const std::vector<int> present = internal::list_gpus();
  for (const int device : devices) {
    internal::check_gpu(device);
    if (std::ranges::count(devices, device) > 1) {
      throw Error(ErrorKind::usage, "ddp: device " + std::to_string(device) + " is listed twice");
    }
  }
  return devices.empty() ? present : devices;
}

}  // namespace

int local_device() {
  return internal::local_gpu();
}

std::vector<ProcessGroup> init_local_devices(const std::vector<int>& devices,
                                             std::chrono::milliseconds timeout) {
  const std::vector<int> chosen = check_devices(devices);
  auto backends = internal::make_local_nccl_backends(chosen, timeout);
  std::vector<ProcessGroup> groups;
  for (std::size_t rank = 0; rank < backends.size(); ++rank) {
    internal::GroupContext context{};
    context.rank = static_cast<int>(rank);
    context.size = static_cast<int>(chosen.size());
    context.timeout = timeout;
    groups.push_back(ProcessGroup(std::make_unique<internal::GroupMember>(
        std::move(context), "nccl", std::move(backends[rank]))));
  }
  return groups;
}

void group_call(const std::function<void()>& calls) {
  internal::run_nccl_group(calls);
}

}  // namespace ddp
