// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The Python stack of a worker, as `py-spy dump --json` or the worker's own traceback prints it.
// Pure.

namespace ddprun::agent {

struct PythonFrame {
  std::string function;
  std::string file;
  int line = 0;
};

/// The innermost frame first.
using PythonStack = std::vector<PythonFrame>;

/// The main thread's stack in the dump of process `pid`; empty if `json` has no such stack.
PythonStack parse_py_spy(std::string_view json, int pid);

/// The last traceback of Python in `text`, which may begin in the middle of it. Each line may begin
/// with PyTorch's "[rank3]: ". Empty: there is none.
PythonStack parse_traceback(const std::string& text);

/// The place where a stack is.
struct StackPlace {
  enum class Kind { collective, backward, unclear, outside };

  Kind kind;
  std::string text;  ///< "in all_reduce (train.py:88)": the program's own line, without its folder
};

/// The place of a non-empty stack: in a collective of PyTorch; in backward(), where DDP and FSDP
/// wait for theirs; in another call that may wait in one; or in none of these. Calls such as item()
/// may wait, too: Python does not show that.
StackPlace stack_place(const PythonStack& stack);

}  // namespace ddprun::agent
