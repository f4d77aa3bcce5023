// SPDX-License-Identifier: Apache-2.0
#include "agent/stack_collector.h"

#include "agent/diagnosis/stack_helper.h"
#include "launcher/kernel/process_sample.h"

namespace ddprun::agent {
namespace {

CollectedStacks collected(const std::string& host, const StackRequest& request,
                          const std::vector<StackCollector::Process>& processes) {
  ProcessStacks read = read_stacks(request);
  CollectedStacks result;
  std::vector<RankStack> ranks;
  result.calls = calls_of(processes);
  for (const auto& [rank, pid, recorder] : processes) {
    ProcessStack& stack = result.of_rank[rank] = std::move(read.of[pid]);
    // The helper may have been killed, or could not start.
    if (stack.sample.state == '?') stack.sample = launcher::sample_processes({pid})[0];
    RankStack& shown = ranks.emplace_back(rank_stack(rank, result.of_rank[rank]));
    const std::string call = launcher::call_text(result.calls[rank]);
    if (!call.empty()) shown.state = call + ", " + shown.state;
  }
  result.stacks = stacks_of_node(host, ranks, read.notes);
  return result;
}

}  // namespace

void StackCollector::collect(const std::vector<Process>& processes, bool native, Done done) {
  asked_[native].push_back(std::move(done));
  if (asked_[native].size() > 1) return;
  StackRequest request = {{}, program_, native};
  for (const Process& process : processes) request.pids.push_back(process.pid);
  jobs_.run([host = host_, request = std::move(request),
             processes] { return collected(host, request, processes); },
            [this, native](const CollectedStacks& result) {
              for (const Done& each : std::exchange(asked_[native], {})) each(result);
            });
}

}  // namespace ddprun::agent
