// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "agent/worker_env.h"
#include "cli/program.h"
#include "cli/resolve.h"
#include "cli/usage.h"

namespace ddprun::cli {
namespace {

constexpr const char* kPythonExec = "PYTHON_EXEC";

Error nothing_to_run(bool module) {
  const std::string what = module ? "module" : "program";
  return usage("no " + what + " to run: ddprun [options] " + (module ? "-m " : "") + what +
               " [args...]; see ddprun --help");
}

/// The interpreter that is to run `what`.
Result<std::string> find_python(const std::string& what, const Host& host) {
  const char* chosen = agent::find_variable(host.environment, kPythonExec);
  if (chosen != nullptr && *chosen != '\0') {
    Result<std::string> python = host.find_program(chosen);
    if (!python) return std::move(python.error()).in(kPythonExec);
    return python;
  }
  Result<std::string> python = host.find_program("python3");
  if (python || python.error().code != Errc::not_found) return python;
  return Error{Errc::not_found, "cannot run " + what + ": there is no python3 in PATH; " +
                                    kPythonExec + "=FILE names another interpreter"};
}

/// "train.py -- --log x" is what users write to keep --log from torchrun, which takes the dashes
/// away. What is executed itself keeps its words: its "--" may be its own.
void drop_dashes(std::vector<std::string>& command) {
  if (command.size() > 1 && command[1] == "--") command.erase(command.begin() + 1);
}

/// Puts before the script or module what runs it. The path stands in for the name, since python
/// finds its virtual environment by it.
void prepend_python(const std::string& python, bool module, std::vector<std::string>& command) {
  std::vector<std::string> words{python, "-u"};
  if (module) words.emplace_back("-m");
  command.insert(command.begin(), words.begin(), words.end());
}

}  // namespace

Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host) {
  const bool module = raw.module;
  if (module && raw.no_python) {
    return usage("--module is run by python, and --no_python wants none: give one of the two");
  }
  if (command.empty()) return nothing_to_run(module);
  const std::string name = command.front();
  const bool script = !module && !raw.no_python && is_script(name);
  if (script) {
    if (const Result<> readable = host.check_script(name); !readable) return readable.error();
  }
  Result<std::string> program =
      module || script ? find_python(name, host) : host.find_program(name);
  if (!program) return program.error();

  agent::JobSpec& job = raw.job;
  if ((module || script) && !raw.set_apart) drop_dashes(command);
  if (module || script) prepend_python(*program, module, command);
  job.own_arguments = module ? 4 : script ? 3 : 1;
  job.program = std::move(*program);
  job.command = std::move(command);
  return {};
}

}  // namespace ddprun::cli
