// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/system/system_error.hpp>

#include "agent/events.h"
#include "agent/gone_message.h"
#include "agent/run.h"
#include "base/log.h"
#include "base/secret.h"
#include "cli/exit_code.h"
#include "cli/host.h"
#include "cli/options.h"
#include "cli/secret.h"
#include "launcher/guardian.h"
#include "launcher/process_title.h"
#include "launcher/signals.h"

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

/// `work` is agent::run or agent::serve.
int run_job(decltype(agent::run) work, const agent::JobSpec& job) {
  log::set_level(job.log_level);
  if (!job.engine.empty()) log::debug(job.engine);
  Result<agent::Events> events = agent::Events::open(job.events_file);
  if (!events) return fail(events.error());
  const agent::Outcome outcome = work(job, *events);
  const int code = cli::exit_code(outcome);
  if (const auto* error = std::get_if<Error>(&outcome)) log::error(error->message);
  events->job_ended(outcome, code);
  events->finish(agent::kLastFlush);
  return code;
}

int run(std::span<const char* const> words, Secret secret) {
  const Result<cli::Parsed> parsed = cli::parse(words, cli::this_host(std::move(secret)));
  if (!parsed) return fail(parsed.error());
  if (const auto* job = std::get_if<agent::JobSpec>(&*parsed)) return run_job(agent::run, *job);
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

/// Asio and the standard library throw when descriptors or memory run out. Then all that is left to
/// do is to report it.
int run_or_report(std::span<const char* const> words, Secret secret) {
  try {
    return run(words, std::move(secret));
  } catch (const boost::system::system_error& failure) {
    return fail(os_error("cannot continue", failure.code().value()));
  } catch (const std::exception& failure) {
    return fail({Errc::system, std::string("cannot continue: ") + failure.what()});
  }
}

/// The agent's process.
int run_agent(int argc, char** argv, Secret secret) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // Whoever kills all that is called ddprun, or has the program in its command line, shall not kill
  // guardian and agent in one go: one of the two has to clean up.
  launcher::set_process_title(argc, argv, "ddp-agent", "ddp-agent of " + std::to_string(getppid()));
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return run_or_report(pointers, std::move(secret));
}

}  // namespace

int main(int argc, char** argv) {
  launcher::block_signals();
  open_standard_descriptors();
  Secret secret = take_variable(cli::kSecretVariable);  // in both processes
  // Forks before it has touched much memory, which makes the fork cheap.
  const Result<int> code = launcher::guard([&] { return run_agent(argc, argv, std::move(secret)); },
                                           agent::gone_message);
  return code ? *code : fail(code.error());
}
