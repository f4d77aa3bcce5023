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

/// The main thread's stack in the dump of process `pid`; empty: there is none, or another text.
PythonStack parse_py_spy(std::string_view json, int pid);

/// Where the last exception in `text` came from, as Python prints its traceback, behind PyTorch's
/// "[rank3]: " or not; `text` may begin in the middle. Empty: there is none.
PythonStack parse_traceback(const std::string& text);

/// The place where a stack is.
struct StackPlace {
  enum class Kind { collective, unclear, outside };

  Kind kind;
  std::string text;  ///< "in all_reduce (train.py:88)": the program's own line, without its folder
};

/// Where a stack that is not empty is: in a collective of PyTorch; in what may wait in one, as
/// backward() does; or in neither as far as it goes, although calls such as item() are not in it.
StackPlace stack_place(const PythonStack& stack);

}  // namespace ddprun::agent
