// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// The path of py-spy, which reads the stacks of Python from outside: beside `program` if that is
/// an interpreter of Python, as anyone may have put something beside another program (/tmp/run.sh),
/// or in PATH. Empty: there is none.
std::string find_py_spy(const std::string& program);

/// Whether the executable of `pid` is an interpreter of Python.
bool runs_python(pid_t pid);

/// The output of `py_spy`, as JSON, about those processes that run Python; they do not notice.
/// Without those that it has not done within `limit`, or may not read. Blocks.
std::map<pid_t, std::string> py_spy_dumps(const std::string& py_spy, const std::vector<pid_t>& pids,
                                          std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
