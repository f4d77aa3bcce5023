// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// The path of py-spy, which reads the stacks of Python from outside; empty: not found. Searches
/// PATH, and the folder of `program` if that is an interpreter of Python: anyone may have put
/// something beside another program (/tmp/run.sh).
std::string find_py_spy(const std::string& program);

/// Whether `program` is an interpreter of Python by its name: "/usr/bin/python3.11".
bool is_python(std::string_view program);

/// Whether the executable of `pid` is an interpreter of Python.
bool runs_python(pid_t pid);

/// The output of `py_spy`, as JSON, for each of these processes that runs Python; they are not
/// disturbed. Leaves out those that it has not done within `limit`, or may not read. Blocks.
std::map<pid_t, std::string> py_spy_dumps(const std::string& py_spy, const std::vector<pid_t>& pids,
                                          std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
