// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "agent/mpi/mpi_hint.h"
#include "agent/worker/worker_env.h"
#include "cli/line/flags.h"
#include "cli/line/usage_error.h"
#include "cli/program.h"
#include "cli/resolve.h"

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

/// Users write "train.py -- --log x" to protect --log from torchrun, which removes the "--". If
/// ddprun executes the program directly, it keeps the "--", which may be meant for the program.
void drop_separator(std::vector<std::string>& command) {
  if (command.size() > 1 && command[1] == "--") command.erase(command.begin() + 1);
}

/// A program that runs its first argument, as torchrun's --run_path does.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

/// The words between python and the program.
std::vector<std::string> python_options(const RawOptions& raw) {
  if (raw.run_path) return {"-u", "-c", kRunPath};
  if (raw.module) return {"-u", "-m"};
  return {"-u"};
}

/// Makes argv[0] python's path, not its name: python finds its virtual environment by it. Returns
/// the index of the program's own arguments.
size_t prepend_python(const std::string& python, const std::vector<std::string>& options,
                      std::vector<std::string>& command) {
  command.insert(command.begin(), options.begin(), options.end());
  command.insert(command.begin(), python);
  return options.size() + 2;
}

/// Each node's keys reach every node through the master: that many take it a second, as a guess
/// 200 bytes for each of 8 ranks.
constexpr int kMostMpiNodes = 512;

/// Whether workers inherit variables that make them processes of an MPI job.
bool is_under_mpi(const Host& host) {
  constexpr std::array<const char*, 4> kVariables = {"PMI_RANK", "PMI_FD", "PMIX_RANK",
                                                     "OMPI_COMM_WORLD_RANK"};
  return std::any_of(kVariables.begin(), kVariables.end(), [&](const char* name) {
    return agent::find_variable(host.environment, name) != nullptr;
  });
}

bool is_linked_with(const std::vector<std::string>& libraries,
                    std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(libraries, [names](const std::string& library) {
    return std::ranges::any_of(names, [&](auto name) { return library.starts_with(name); });
  });
}

/// Programs with libddp do not count: it connects its ranks itself before it calls MPI.
bool is_mpi_program(const std::vector<std::string>& libraries) {
  return is_linked_with(libraries, {"libmpi", "libpmi"}) && !is_linked_with(libraries, {"libddp."});
}

/// By the names that the libraries of MPICH, and those with its ABI, have.
agent::Mpi mpi_of(const std::vector<std::string>& libraries) {
  const bool is_mpich = is_linked_with(
      libraries, {"libmpich", "libmpi.so.12", "libmpifort.so.12", "libmpicxx.so.12"});
  const bool is_open_mpi = is_linked_with(
      libraries, {"libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_cxx.so.40", "libpmix.so.2"});
  return is_mpich ? agent::Mpi::pmi1 : is_open_mpi ? agent::Mpi::pmix : agent::Mpi::none;
}

/// The script that python runs here, if the script itself imports mpi4py; otherwise empty.
std::string script_with_mpi(const std::vector<std::string>& command, const Host& host) {
  constexpr size_t kMostBefore = 2;  // python and its options
  const auto end = command.begin() + std::min<std::ptrdiff_t>(std::ssize(command), kMostBefore + 1);
  const auto script = std::find_if(command.begin(), end, is_script);
  if (script == end) return "";
  const std::string text = "\n" + host.read_file(*script).value_or("");
  const bool imports =
      text.find("\nimport mpi4py") != text.npos || text.find("\nfrom mpi4py") != text.npos;
  return imports ? *script : "";
}

/// With auto. A lone worker of an MPI job keeps its place there; of several each would have the
/// same.
void choose_mpi(agent::JobSpec& job, const Host& host) {
  const bool is_alone = job.local_size == 1 && job.max_nodes == 1;
  const bool is_python = job.own_arguments > 1;
  const bool is_placed = is_under_mpi(host) && job.local_size == 1;
  if (is_alone || job.cannot_run || is_placed) return;
  const auto libraries =
      is_python ? std::vector<std::string>() : host.needed_libraries(job.program);
  const bool is_known = is_mpi_program(libraries);
  if (is_known) job.mpi = mpi_of(libraries);
  if (job.mpi != agent::Mpi::none) return;
  const std::string script = is_known ? "" : script_with_mpi(job.command, host);
  job.may_lack_mpi = !is_known && script.empty();
  if (!script.empty()) job.warnings.push_back(agent::mpi_hint(script + " imports mpi4py"));
  if (!is_known) return;
  job.warnings.push_back(job.program +
                         " is linked with an MPI that ddprun does not know: each worker may be "
                         "rank 0 of 1; --mpi both connects them by PMIx and PMI-1");
}

}  // namespace

Result<> resolve_mpi(RawOptions& raw, const Host& host) {
  agent::JobSpec& job = raw.job;
  raw.mpi ? void(job.mpi = *raw.mpi) : choose_mpi(job, host);
  if (job.mpi_ft && !raw.mpi && job.mpi == agent::Mpi::none) job.mpi = agent::Mpi::pmix;
  if (job.mpi_ft && job.mpi != agent::Mpi::pmix) {
    return usage_error("--mpi_ft needs --mpi pmix: only ranks of Open MPI survive others");
  }
  job.is_crowded = job.local_size > std::ssize(host.cpus());
  if (job.mpi == agent::Mpi::none) return {};
  if (!job.preload.empty()) {
    return usage_error(
        "--mpi does not connect workers that --preload forks: leave out one of them");
  }
  if (job.max_nodes == 1) return {};
  if (job.max_nodes > kMostMpiNodes) {
    return usage_error("--mpi connects the ranks of " + std::to_string(kMostMpiNodes) +
                       " nodes at most, and --nnodes allows " + std::to_string(job.max_nodes) +
                       ": give fewer, or --mpi none");
  }
  if (job.store == agent::StoreHost::worker) {
    return usage_error(
        "--mpi on several nodes needs ddprun's store: leave out --store worker, or "
        "give --mpi none");
  }
  return {};
}

void warn_of_misplaced_flags(RawOptions& raw) {
  agent::JobSpec& job = raw.job;
  const bool is_alone = job.local_size == 1 && job.max_nodes == 1;
  if (raw.has_separator) return;
  const auto arguments = std::span(job.command).subspan(job.own_arguments);
  if (job.mpi != agent::Mpi::none && std::ranges::count(arguments, ":") != 0) {
    job.warnings.push_back(job.command[job.own_arguments - 1] +
                           " gets ':' and the words after it: ddprun starts one program, so let "
                           "it branch by its rank (-- before the program silences this warning)");
  }
  if (!is_alone) return;
  for (size_t at = job.own_arguments; at < job.command.size(); ++at) {
    const std::string word = job.command[at].substr(0, job.command[at].find('='));
    const Flag* flag = word.starts_with("--") ? find_flag(word) : nullptr;
    if (flag == nullptr || (flag->name != "nproc_per_node" && flag->name != "nnodes")) continue;
    job.warnings.push_back(word +
                           " comes after the program, which gets it: put ddprun's flags before the "
                           "program (-- before the program silences this warning)");
    return;
  }
}

Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host) {
  const bool module = raw.module && !raw.run_path;
  if (module && raw.no_python) {
    return usage_error("--module is run by python, which --no_python forbids: give one of the two");
  }
  if (command.empty()) return nothing_to_run(module);
  const std::string name = command.front();
  const bool script = raw.run_path || (!module && !raw.no_python && is_script(name));
  if ((module || script) && !raw.has_separator) drop_separator(command);
  agent::JobSpec& job = raw.job;
  job.command = command;  // as given, even if it cannot be run
  if (script) {
    if (const Result<> readable = host.check_script(name); !readable) return readable.error();
  }
  if (!job.preload.empty() && !module && !script) {
    return usage_error(
        "--preload is for Python programs (FILE.py, -m MODULE, --run_path FILE), but '" + name +
        "' is executed directly");
  }
  Result<std::string> program =
      module || script ? find_python(name, host) : host.find_program(name);
  if (!program) return program.error();

  job.own_arguments = module || script ? prepend_python(*program, python_options(raw), command) : 1;
  job.program = std::move(*program);
  job.command = std::move(command);
  return {};
}

}  // namespace ddprun::cli
