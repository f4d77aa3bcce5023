// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <span>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/system/system_error.hpp>

#include "agent/diagnosis/gone_message.h"
#include "agent/diagnosis/stack_helper.h"
#include "agent/job/events.h"
#include "agent/mpi/mpi_line.h"
#include "agent/mpi/mpi_server.h"
#include "agent/run.h"
#include "base/colour.h"
#include "base/log.h"
#include "base/secret.h"
#include "cli/ask/verbs.h"
#include "cli/doctor/job.h"
#include "cli/doctor/node.h"
#include "cli/exit_code.h"
#include "cli/host.h"
#include "cli/line/secret.h"
#include "cli/options.h"
#include "cli/requeue.h"
#include "launcher/guardian/guardian.h"
#include "launcher/process/signals.h"
#include "remote/launch.h"
#include "remote/remote_agent.h"
#include "rendezvous/net/addresses.h"

namespace {

using namespace ddprun;

/// A process may be started with descriptor 0, 1 or 2 closed; no socket may get that number.
void open_standard_descriptors() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    close(fd);
    return;
  }
}

int fail(const Error& error) {
  log::error(error.message);
  return cli::exit_code(error);
}

/// Sets the style of ddprun's own lines, and logs the first ones.
void begin_log(const agent::JobSpec& job) {
  log::set_level(job.log_level);
  launcher::set_log_style(log::style_for(job.log_format, job.log_level,
                                         job.max_nodes > 1 ? rendezvous::host_name() : ""));
  for (const std::string& warning : job.warnings) log::warning(warning);
  for (const std::string& origin : job.origins) log::debug(origin);
}

/// `work` is agent::run or agent::serve.
int run_job(decltype(agent::run) work, const agent::JobSpec& job) {
  set_colour(job.colour);
  begin_log(job);
  Result<agent::Events> events = agent::Events::open(job.events_file);
  if (!events) return fail(events.error());
  const agent::Outcome outcome = work(job, *events);
  const int code = cli::exit_code(outcome);
  if (const auto* error = std::get_if<Error>(&outcome)) log::error(error->message);
  events->job_ended(outcome, code);
  events->finish(agent::kLastFlush);
  cli::requeue_if_due(job.requeue, code);
  return code;
}

int run_doctor(const doctor::Job& job) {
  begin_log(job.spec);
  Result<agent::Events> events = agent::Events::open(job.spec.events_file);
  if (!events) return fail(events.error());
  const int code = doctor::run(job, *events);
  events->finish(agent::kLastFlush);
  return code;
}

int run_hosts(const remote::Job& job) {
  const Result<remote::Ending> ending = remote::launch(job);
  if (!ending) return fail(ending.error());
  cli::requeue_if_due(job.requeue, ending->code, ending->lost_host);
  return ending->code;
}

/// `remote`: another ddprun started this one.
int run(std::span<const char* const> words, bool remote, cli::TakenVariables taken) {
  const Result<cli::Parsed> parsed = cli::parse(words, cli::this_host(std::move(taken)));
  if (!parsed) return fail(parsed.error());
  if (remote) remote::say_ready();
  if (const auto* job = std::get_if<remote::Job>(&*parsed)) return run_hosts(*job);
  if (const auto* job = std::get_if<agent::JobSpec>(&*parsed)) return run_job(agent::run, *job);
  if (const auto* job = std::get_if<doctor::Job>(&*parsed)) return run_doctor(*job);
  if (const auto* serve = std::get_if<cli::Serve>(&*parsed)) {
    return run_job(agent::serve, serve->job);
  }
  if (const auto* secret_file = std::get_if<cli::MakeSecret>(&*parsed)) {
    const Result<> made = cli::make_secret(secret_file->file);
    return made ? 0 : fail(made.error());
  }
  const bool written = std::fputs(std::get<cli::Print>(*parsed).text.c_str(), stdout) >= 0 &&
                       std::fflush(stdout) == 0;
  return written ? 0 : fail(os_error("cannot write to stdout", errno));
}

/// Asio and the standard library throw if descriptors or memory run out. Then only a report is left
/// to do.
int run_or_report(std::span<const char* const> words, bool remote, cli::TakenVariables taken) {
  try {
    return run(words, remote, std::move(taken));
  } catch (const boost::system::system_error& failure) {
    return fail(os_error("cannot continue", failure.code().value()));
  } catch (const std::exception& failure) {
    return fail({Errc::system, std::string("cannot continue: ") + failure.what()});
  }
}

using Words = std::vector<std::string>;

/// All files are written or removed; the kernel frees the rest faster than destructors do. But
/// sanitizers look for leaks at exit.
[[noreturn]] void end_process(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);
#else
  _exit(code);
#endif
}

/// Changes what ps, pgrep and pkill see of this process: its name, which the kernel cuts to 15
/// bytes, and its command line. That is the memory of `argv`, so `command_line` is cut to fit; the
/// caller has copied the arguments that it still needs.
void set_process_title(int argc, char** argv, const std::string& name,
                       const std::string& command_line) {
  prctl(PR_SET_NAME, name.c_str());
  if (argc < 1) return;
  // The kernel has put the words one after the other.
  char* const begin = argv[0];
  const char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  const auto size = static_cast<size_t>(end - begin);
  const size_t used = std::min(size, command_line.size());
  std::copy_n(command_line.begin(), used, begin);
  std::fill(begin + used, begin + size, '\0');
}

/// The agent's process.
int run_agent(int argc, char** argv, const Words& words, bool remote, cli::TakenVariables taken) {
  // `pkill ddprun`, or pkill -f with the program's name, must not kill both the guardian and the
  // agent: one of the two has to clean up.
  set_process_title(argc, argv, "ddp-agent", "ddp-agent of " + std::to_string(getppid()));
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return run_or_report(pointers, remote, std::move(taken));
}

/// The guardian's process, and that of its agent.
int run_guarded(int argc, char** argv, const Words& words, bool remote, Fd control, Secret sent) {
  cli::TakenVariables taken = cli::take_variables();  // in both processes
  if (sent) {
    taken.secret = std::move(sent);
    unsetenv(cli::kSecretFileVariable);  // a file would have precedence
  }
  // Forks early: a fork is cheap as long as the process has touched little memory.
  const Result<int> code = launcher::guard(
      [&]() -> int { end_process(run_agent(argc, argv, words, remote, std::move(taken))); },
      agent::gone_message, std::move(control));
  return code ? *code : fail(code.error());
}

/// The agent of another ddprun, which reads say_ended().
int run_remote(int argc, char** argv) {
  const pid_t guardian = getpid();
  Result<remote::Followed> order = remote::follow_order();
  const int code = order ? run_guarded(argc, argv, order->arguments, true,
                                       std::move(order->control), std::move(order->secret))
                         : fail(order.error());
  if (getpid() == guardian) remote::say_ended(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  const Words words(argv + std::min(argc, 1), argv + argc);
  if (agent::is_stack_helper(words)) return agent::run_stack_helper(words);
  if (agent::is_mpi_server(words)) return agent::run_mpi_server(words);
  if (cli::is_verb(words)) return cli::run_verb(words);
  if (doctor::is_node(words)) return doctor::run_node(words);  // signals end it, as any worker
  launcher::block_signals();
  if (remote::is_remote_agent(words)) return run_remote(argc, argv);
  end_process(run_guarded(argc, argv, words, false, Fd(), Secret()));
}
