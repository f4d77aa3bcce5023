// SPDX-License-Identifier: Apache-2.0
// One rank of a job that only a launcher can end. The last rank makes no call, rank 0 waits for
// rank 1, and rank 1 for the failure of rank 0. No rank reads from a connection to the last rank,
// and each ignores SIGTERM.

#include <csignal>
#include <cstdio>
#include <ddp/process_group.h>
#include <ddp/record.h>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"
#include "tests/collectives/stores/job_store.h"

namespace {

using namespace ddprun::tests;

void wait(ddp::ProcessGroup& group) {
  std::signal(SIGTERM, SIG_IGN);
  const int rank = group.rank();
  const bool is_last = rank + 1 == group.size();
  const auto store = job_store();
  auto others = group.split(is_last ? -1 : 0);
  std::vector<float> data(1000);
  std::optional<ddp::Work> work;
  if (rank == 0) work = others->iall_reduce(data);
  store->set("waits/" + std::to_string(rank), "");
  std::printf("rank %d waits\n", rank);
  std::fflush(stdout);
  if (is_last) ::pause();
  if (rank == 1) store->get("failed");
  try {
    if (work) work->wait();
    const int calls = rank == 1 ? 2 : 0;  // rank 0 may have failed before, and begun the first
    for (int call = 0; call < calls; ++call) others->all_reduce(data);
    wrong("a call of a lost job succeeded");
  } catch (const ddp::Error& error) {
    const std::vector<int>& lost = error.lost_ranks();  // none: ddprun lost the rank's whole node
    if (!lost.empty() && lost != std::vector{group.size() - 1}) wrong("another rank is lost");
    store->set("failed", "");
    throw;
  }
}

}  // namespace

int main() {
  return ddp::record([] {
    return exit_code_of([] {
      ddp::ProcessGroup group = join();
      wait(group);
    });
  });
}
