// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::launcher {

/// Changes what ps, pgrep and pkill see of this process: its name, which the kernel cuts to 15
/// bytes, and its command line. That is the memory of `argv`, so `command_line` is cut to fit; the
/// caller has copied the arguments that it still needs.
void set_process_title(int argc, char** argv, const std::string& name,
                       const std::string& command_line);

}  // namespace ddprun::launcher
