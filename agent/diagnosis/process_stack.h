// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/diagnosis/python_stack.h"
#include "agent/diagnosis/stack_tree.h"
#include "launcher/devices/gpu_wait.h"
#include "launcher/kernel/native_stack.h"
#include "launcher/kernel/process_sample.h"

// The helper that reads stacks sends the agent a line of JSON for the main thread of each process.
// Pure.

namespace ddprun::agent {

struct ProcessStack {
  launcher::ProcessSample sample;
  std::string wait_channel;                  ///< where in the kernel it waits; empty: unknown
  PythonStack python;                        ///< empty: unknown, or it runs no Python
  std::vector<launcher::NativeCall> native;  ///< the innermost first; empty: unknown
  std::vector<launcher::GpuWait> waits;      ///< of all its threads
  bool in_driver = false;                    ///< the main thread waits for its GPU
  bool uses_gpu = false;                     ///< it has loaded the driver
};

/// The stacks of processes, and the reasons why some could not be read.
struct ProcessStacks {
  std::map<int, ProcessStack> of;  ///< by process id
  std::vector<std::string> notes;
};

/// Whether `stack` shows where the program is, and not only where its interpreter is.
bool shows_program(const ProcessStack& stack);

/// The driver's function in which the main thread waits for its GPU: "cudaStreamSynchronize", or
/// "its driver" if it has no name; empty: it does not.
std::string gpu_call(const ProcessStack& stack);

/// The line, with its newline.
std::string line_of(int pid, const ProcessStack& stack);
std::string line_of_note(const std::string& note);

/// Reads lines. A later line about a process replaces an earlier one. Ignores incomplete lines.
ProcessStacks read_stack_lines(std::string_view lines);

/// Python's frames, then the native frames that the interpreter called (without an interpreter: all
/// of them), and the state that the kernel reports.
RankStack rank_stack(int rank, const ProcessStack& stack);

}  // namespace ddprun::agent
