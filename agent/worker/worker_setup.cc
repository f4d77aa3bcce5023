// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_setup.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <unistd.h>
#include <utility>

#include "agent/job/job_spec.h"
#include "agent/worker/worker_command.h"
#include "agent/worker/worker_devices.h"
#include "base/log.h"
#include "launcher/output/prefix.h"
#include "launcher/process/spawn.h"
#include "launcher/process/terminal.h"

namespace ddprun::agent {
namespace {

bool has_file(const launcher::StreamSink& sink) {
  return sink.file || sink.duplicates;
}

/// nullopt: the worker writes to a pipe. A log file should have what a program writes to files.
std::optional<launcher::WindowSize> window_of(const WorkerSetup::Worker& worker, bool of_stderr,
                                              Tty tty, const launcher::Output& output) {
  const launcher::StreamSink& sink = worker.sinks[of_stderr ? 1 : 0];
  if (tty == Tty::never) return std::nullopt;
  const auto window = output.window(of_stderr, worker.prefix);
  if (tty == Tty::always) return window.value_or(launcher::WindowSize());
  return sink.shown && !has_file(sink) ? window : std::nullopt;
}

/// Whether stdout and stderr share a terminal, as without ddprun: a prompt on stderr comes last.
bool has_one_terminal(const WorkerSetup::Worker& worker, const launcher::Output& output) {
  return is_shown_as_it_is(worker) && output.has_one_console() && worker.command.stdout_window &&
         worker.command.stderr_window && std::ranges::none_of(worker.sinks, has_file);
}

}  // namespace

bool is_shown_as_it_is(const WorkerSetup::Worker& worker) {
  return worker.alone && worker.prefix.empty() && !log::are_lines_relayed();
}

launcher::Command take_command(WorkerSetup::Worker& worker, Tty tty,
                               const launcher::Output& output) {
  worker.command.stdout_window = window_of(worker, false, tty, output);
  worker.command.stderr_window = window_of(worker, true, tty, output);
  worker.command.one_terminal = has_one_terminal(worker, output);
  return std::move(worker.command);
}

void report_missing_terminals(const std::vector<launcher::Child>& children) {
  const auto lacking = std::ranges::find_if(
      children, [](const auto& child) { return child.no_terminal.has_value(); });
  if (lacking == children.end()) return;
  log::warning(lacking->no_terminal->message +
               "; workers without one write to pipes (see kernel.pty.max; --tty never: all do)");
}

WorkerSetup::WorkerSetup(boost::asio::any_io_executor executor, const JobSpec& job,
                         std::string host_name)
    : job_(job),
      host_name_(std::move(host_name)),
      inherited_(launcher::own_environment()),
      spec_(std::make_shared<const launcher::LogSpec>(job.logs)),
      disk_(std::move(executor)) {}

Result<> WorkerSetup::open_logs() {
  const bool wants_files = job_.logs.wants_files();
  const Result<> opened = logs_.open(job_.log_dir, job_name(job_), wants_files);
  if (!opened) {
    Error error = opened.error();
    if (error.code == Errc::usage) return error;
    if (wants_files) {
      return Error{Errc::usage,
                   "no place for log files: " + error.message + "; give --log_dir DIR"};
    }
    log::warning(error.message + "; workers get no TORCHELASTIC_ERROR_FILE (give --log_dir DIR)");
  }
  if (wants_files && !logs_.path().empty()) log::info("log files are in " + logs_.path());
  return {};
}

std::string WorkerSetup::log_folder() const {
  if (!logs_.path().empty()) return logs_.path();
  const char* temporary = find_variable(inherited_, "TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

void WorkerSetup::prepare(const rendezvous::Layout& layout, const rendezvous::Endpoint& store,
                          std::vector<std::string> more, Prepared prepared) {
  layout_ = layout;
  more_variables_ = std::move(more);
  if (!no_input_) no_input_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!no_input_) return prepared(os_error("cannot open /dev/null", errno));
  launcher::AttemptFiles files = logs_.begin_attempt(layout_.round);
  const bool may_block = files.has_directories();
  auto open = [spec = spec_, files = std::move(files), size = layout_.local_size] {
    return launcher::open_sinks(*spec, files, size);
  };
  if (!may_block) return on_opened(open(), store, prepared);
  preparing_ = std::make_shared<char>();
  disk_.run(std::move(open), [this, preparing = std::weak_ptr(preparing_), store,
                              prepared = std::move(prepared)](launcher::AttemptSinks opened) {
    if (preparing.expired()) return disk_.discard(std::move(opened));
    preparing_.reset();
    on_opened(std::move(opened), store, prepared);
  });
}

void WorkerSetup::on_opened(launcher::AttemptSinks opened, const rendezvous::Endpoint& store,
                            const Prepared& prepared) {
  for (const std::string& warning : opened.warnings) log::warning(warning);
  files_ = std::move(opened.files);
  prepared(workers(store, std::move(opened.workers)));
}

Result<std::vector<WorkerSetup::Worker>> WorkerSetup::workers(
    const rendezvous::Endpoint& store,
    std::vector<std::array<launcher::StreamSink, 2>> sinks_of_workers) {
  WorkerEnv env(job_, inherited_, layout_, store);
  report_omp_limit(env);
  std::vector<Worker> all;
  all.reserve(static_cast<size_t>(layout_.local_size));
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    Result<Worker> one =
        worker(local_rank, env, std::move(sinks_of_workers[static_cast<size_t>(local_rank)]));
    if (!one) return one.error();
    all.push_back(std::move(*one));
  }
  auto common = std::move(env).common();
  set_variables(common, more_variables_);
  const auto environment = std::make_shared<const std::vector<std::string>>(std::move(common));
  for (Worker& one : all) one.command.common_environment = environment;
  if (job_.report_bindings) report_bindings();
  return all;
}

std::vector<std::string> WorkerSetup::redirected_to(int local_rank) const {
  using launcher::AttemptFiles;
  using launcher::StreamMasks;
  std::vector<std::string> paths;
  if (!files_.has_logs()) return paths;
  const auto add = [&](unsigned stream, AttemptFiles::Stream name) {
    const bool direct =
        job_.logs.redirects.holds(local_rank, stream) && !job_.logs.tees.holds(local_rank, stream);
    if (direct) paths.push_back(files_.log_file(local_rank, name));
  };
  add(StreamMasks::kStdout, AttemptFiles::Stream::out);
  add(StreamMasks::kStderr, AttemptFiles::Stream::err);
  return paths;
}

std::string WorkerSetup::log_folder_of(int local_rank) const {
  using launcher::StreamMasks;
  const auto has_files = [local_rank](const StreamMasks& masks) {
    return masks.holds(local_rank, StreamMasks::kStdout) ||
           masks.holds(local_rank, StreamMasks::kStderr);
  };
  const bool has_any = has_files(job_.logs.redirects) || has_files(job_.logs.tees);
  return has_any ? files_.folder(local_rank) : "";
}

Result<WorkerSetup::Worker> WorkerSetup::worker(int local_rank, const WorkerEnv& env,
                                                std::array<launcher::StreamSink, 2> sinks) {
  Result<std::string> prefix = prefix_of(local_rank);
  if (!prefix) return prefix.error();
  const bool alone = is_alone(local_rank);
  if (!alone && is_debugged_here()) {
    for (launcher::StreamSink& sink : sinks) sink.shown = false;
  }
  launcher::Command command = {job_.program,
                               worker_command(job_, local_rank),
                               env.own(local_rank, error_file(local_rank)),
                               reads_input(local_rank) ? STDIN_FILENO : no_input_.get(),
                               sinks[0].direct_fd(),
                               sinks[1].direct_fd(),
                               cpus_of(local_rank)};
  return Worker{std::move(command), std::move(*prefix), std::move(sinks), alone};
}

bool WorkerSetup::is_debugged_here() const {
  const int local_rank = job_.debugged_rank.value_or(-1) - layout_.first_rank;
  return local_rank >= 0 && local_rank < layout_.local_size;
}

bool WorkerSetup::is_alone(int local_rank) const {
  return layout_.world_size == 1 ||
         (is_debugged_here() && layout_.first_rank + local_rank == *job_.debugged_rank);
}

bool WorkerSetup::reads_input(int local_rank) const {
  return layout_.first_rank + local_rank == job_.debugged_rank.value_or(0) &&
         !launcher::is_terminal_of_others(STDIN_FILENO);
}

/// A rank that --pdb shows alone has no default prefix. If a rank is alone because other nodes have
/// gone, it keeps its prefix.
Result<std::string> WorkerSetup::prefix_of(int local_rank) const {
  if (!job_.prefix) return std::string();
  const bool is_debugged = layout_.first_rank + local_rank == job_.debugged_rank;
  if (is_debugged && *job_.prefix == launcher::kDefaultPrefix) return std::string();
  launcher::PrefixFacts facts;
  facts.rank = layout_.first_rank + local_rank;
  facts.local_rank = local_rank;
  facts.node_rank = layout_.node_rank;
  facts.world_size = layout_.world_size;
  facts.restart = layout_.restarts;
  facts.host = host_name_;
  facts.role_name = job_.role;
  return launcher::expand_prefix(*job_.prefix, facts);
}

std::vector<int> WorkerSetup::cpus_of(int local_rank) const {
  if (!job_.numa_binding) return {};
  return job_.bindings[static_cast<size_t>(local_rank)].cpus;
}

void WorkerSetup::report_omp_limit(const WorkerEnv& env) {
  if (!env.limits_omp_threads() || std::exchange(omp_limit_reported_, true)) return;
  log::info("OMP_NUM_THREADS=1 for every worker; set it yourself to change that");
}

void WorkerSetup::report_bindings() const {
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    log::info("rank " + std::to_string(layout_.first_rank + local_rank) + " (local " +
              std::to_string(local_rank) + "): " + binding_text(job_, local_rank));
  }
}

}  // namespace ddprun::agent
