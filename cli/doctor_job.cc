// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_job.h"

#include <chrono>
#include <utility>

#include "agent/master/master.h"
#include "agent/worker/worker_env.h"
#include "cli/line/usage_error.h"
#include "cli/resolve.h"

namespace ddprun::cli {
namespace {

/// The wait for the other nodes: a user does not want to wait ten minutes for the doctor.
constexpr std::chrono::seconds kJoinTimeout{60};

constexpr const char* kDefaultTemporary = "/tmp";

/// Looks up the program and the workers. The order gets the reasons why this node cannot run them.
void look_up_program(RawOptions& raw, std::vector<std::string> command, const Host& host,
                     doctor::Order& order) {
  const std::string name = command.empty() ? "" : command.front();
  if (!command.empty()) {
    const Result<> found = resolve_program(raw, std::move(command), host);
    if (!found) order.problem = found.error().message;
  }
  const agent::JobSpec& job = raw.job;
  const bool is_python = job.own_arguments > 1;  // python's words come first
  const Result<std::string> python = host.find_program("python3");
  if (is_python) {
    order.python = job.program;
  } else if (name.empty() && python) {
    order.python = *python;
  }
  if (!name.empty() && !raw.module) order.program = is_python ? name : job.program;
  const Result<> counted = resolve_workers(raw, host);
  if (!counted) order.workers_problem = counted.error().message;
}

std::vector<std::string> folders(const RawOptions& raw, const Host& host) {
  const char* given = agent::find_variable(host.environment, "TMPDIR");
  std::vector<std::string> all = {given != nullptr && *given != '\0' ? given : kDefaultTemporary};
  const std::string& logs = raw.job.log_dir;
  if (!logs.empty() && logs != "/dev/null") all.push_back(logs);
  return all;
}

}  // namespace

Result<doctor::Job> doctor_job(RawOptions raw, std::vector<std::string> command, const Host& host) {
  if (raw.dry_run) return usage_error("--dry_run is not for ddprun doctor, which runs no program");
  doctor::Order order;
  look_up_program(raw, std::move(command), host, order);
  order.gives_gloo_interface =
      agent::find_variable(host.environment, "GLOO_SOCKET_IFNAME") != nullptr;
  order.folders = folders(raw, host);
  order.devices = raw.job.devices;
  order.workers = raw.job.local_size;
  order.preloads = !raw.job.preload.empty();
  order.json = raw.json;
  order.bench = raw.bench;
  const bool gives_timeout = raw.given.contains("join_timeout") ||
                             raw.job.join_timeout != agent::JobSpec().join_timeout;  // --rdzv_conf
  if (!gives_timeout) raw.job.join_timeout = kJoinTimeout;
  if (agent::uses_tunnel(raw.job)) raw.job.store = agent::StoreHost::agent;
  return doctor::make_job(std::move(raw.job), std::move(order), host.executable());
}

}  // namespace ddprun::cli
