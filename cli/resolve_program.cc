// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "agent/worker_env.h"
#include "cli/program.h"
#include "cli/resolve.h"
#include "cli/usage_error.h"

namespace ddprun::cli {
namespace {

constexpr const char* kPythonExec = "PYTHON_EXEC";

Error nothing_to_run(bool module) {
  const std::string what = module ? "module" : "program";
  return usage_error("no " + what + " to run: ddprun [options] " + (module ? "-m " : "") + what +
                     " [args...]; see ddprun --help");
}

/// The python that runs `what`.
Result<std::string> find_python(const std::string& what, const Host& host) {
  const char* given = agent::find_variable(host.environment, kPythonExec);
  if (given != nullptr && *given != '\0') {
    Result<std::string> python = host.find_program(given);
    if (!python) return std::move(python.error()).in(kPythonExec);
    return python;
  }
  Result<std::string> python = host.find_program("python3");
  if (python || python.error().code != Errc::not_found) return python;
  return Error{Errc::not_found, "cannot run " + what + ": python3 not found in PATH; " +
                                    kPythonExec + "=FILE names another interpreter"};
}

/// Users write "train.py -- --log x" to protect --log from torchrun, which removes the "--". A
/// program that is executed directly keeps it: the "--" may be meant for the program.
void drop_separator(std::vector<std::string>& command) {
  if (command.size() > 1 && command[1] == "--") command.erase(command.begin() + 1);
}

/// argv[0] is the path of python, not its name, because python finds its virtual environment by it.
void prepend_python(const std::string& python, bool module, std::vector<std::string>& command) {
  std::vector<std::string> words{python, "-u"};
  if (module) words.emplace_back("-m");
  command.insert(command.begin(), words.begin(), words.end());
}

}  // namespace

Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host) {
  const bool module = raw.module;
  if (module && raw.no_python) {
    return usage_error("--module is run by python, which --no_python forbids: give one of the two");
  }
  if (command.empty()) return nothing_to_run(module);
  const std::string name = command.front();
  const bool script = !module && !raw.no_python && is_script(name);
  if ((module || script) && !raw.has_separator) drop_separator(command);
  agent::JobSpec& job = raw.job;
  job.command = command;  // as given, also where it cannot be run
  if (script) {
    if (const Result<> readable = host.check_script(name); !readable) return readable.error();
  }
  Result<std::string> program =
      module || script ? find_python(name, host) : host.find_program(name);
  if (!program) return program.error();

  if (module || script) prepend_python(*program, module, command);
  job.own_arguments = module ? 4 : script ? 3 : 1;
  job.program = std::move(*program);
  job.command = std::move(command);
  return {};
}

}  // namespace ddprun::cli
