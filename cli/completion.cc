// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include "cli/completion_scripts.h"

namespace ddprun::cli {

std::string completion(std::string_view shell) {
  const std::vector<CompletedCommand> commands = completed_commands();
  if (shell == "bash") return bash_completion(commands);
  return shell == "zsh" ? zsh_completion(commands) : fish_completion(commands);
}

}  // namespace ddprun::cli
