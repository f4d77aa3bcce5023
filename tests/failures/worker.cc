// SPDX-License-Identifier: Apache-2.0
// A rank of four whose collective calls go wrong: `hang`, `desync` or `sizes`. ddp_worker.py does
// the same.

#include <chrono>
#include <cstdlib>
#include <ddp/process_group.h>
#include <ddp/record.h>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

// Longer than a worker has to stand still until that tells anything.
constexpr std::chrono::seconds kTimeout{8};

void load_batch() {
  std::this_thread::sleep_for(std::chrono::minutes(10));
}

}  // namespace

int main(int, char** argv) {
  const std::string_view action = argv[1];
  return ddp::record([&] {
    ddp::Options options;
    options.timeout = std::chrono::minutes(1);
    ddp::ProcessGroup group = ddp::init_process_group(options);
    const bool guilty = std::to_string(group.rank()) == std::getenv("FAILURES_RANK");
    group.barrier();
    if (action != "hang_longer") group.set_timeout(kTimeout);
    if (guilty && action.starts_with("hang")) load_batch();
    if (guilty && action == "desync") group.barrier();
    std::vector<float> gradients(guilty && action == "sizes" ? 8 : 4);
    group.all_reduce(gradients);
    return 0;
  });
}
