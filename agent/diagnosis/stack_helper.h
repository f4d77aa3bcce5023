// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/diagnosis/process_stack.h"

namespace ddprun::agent {

/// The helper's time limit; the stacks that it has read until then are reported.
inline constexpr std::chrono::milliseconds kStacksLimit{4'500};

/// A request to the helper, a process of its own: reading stacks may take seconds, a debugger's
/// calls belong to one thread, and a parent that traced its children would mix up their stops and
/// their ends. The helper is this program again, as a child of the agent. The agent kills it if it
/// takes too long, and nothing that it does outlives it.
struct StackRequest {
  std::vector<pid_t> pids;
  std::string program;  ///< the helper looks for py-spy beside it, and in PATH
  bool native = false;  ///< calls of C and C++ even if there are Python's
  /// Unless none: the threads that wait for a GPU instead of stacks, also of workers' processes.
  enum class Waits { none, of_main_threads, of_all_threads } waits = Waits::none;
  std::chrono::milliseconds limit = kStacksLimit;
};

/// Runs the helper to its end, in at most the request's limit. Blocks.
ProcessStacks read_stacks(const StackRequest& request);

/// Whether a program with these arguments, without its name, is the helper.
bool is_stack_helper(std::span<const std::string> arguments);

/// The helper's main(): its exit code.
int run_stack_helper(std::span<const std::string> arguments);

}  // namespace ddprun::agent
