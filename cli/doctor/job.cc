// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/job.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>

#include "agent/job/outcome.h"
#include "agent/run.h"
#include "base/log.h"
#include "cli/doctor/json.h"
#include "cli/doctor/node.h"
#include "cli/doctor/read_facts.h"
#include "cli/doctor/report.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::doctor {
namespace {

using std::chrono::milliseconds;

/// The word that distinguishes nodes of this job from another job's.
constexpr const char* kCommand = "doctor";

/// Sets the flags about workers to their defaults.
agent::JobSpec without_workers(agent::JobSpec spec) {
  const agent::JobSpec plain;
  spec.local_rank_flag.clear();
  spec.cannot_run.reset();
  spec.preload.clear();
  spec.local_size = 1;
  static_cast<rendezvous::RestartSpec&>(spec) = plain;
  spec.hang_timeout = plain.hang_timeout;  // nodes wait for the slowest one
  spec.progress_pattern.clear();
  spec.devices.clear();
  spec.gpu_bind = plain.gpu_bind;
  spec.virtual_local_rank = false;
  spec.store = plain.store;
  spec.numa_binding.reset();
  spec.bindings.clear();
  spec.report_bindings = false;
  spec.prefix.reset();
  spec.log_dir.clear();
  spec.error_file.clear();
  spec.web.reset();
  spec.logs = {};
  return spec;
}

std::string address_of(const rendezvous::Endpoint& endpoint) {
  const auto addresses = rendezvous::resolve(endpoint);
  if (!addresses || addresses->empty()) return "";
  return rendezvous::plain_text(addresses->front().address());
}

Findings examine_alone(const Job& job, const Facts& facts, const Error& error) {
  const rendezvous::Endpoint endpoint{job.spec.master_addr, job.spec.master_port};
  Findings findings = judge_rendezvous(error, {endpoint.host, endpoint.port, address_of(endpoint),
                                               rendezvous::host_name(), job.spec.max_nodes});
  for (Finding& finding : examine({facts}, {})) findings.push_back(std::move(finding));
  return findings;
}

/// Reports only this node's own facts, as the rendezvous failed.
int report_alone(const Job& job, const Error& error, std::int64_t open_files) {
  std::vector<Facts> nodes = {read_facts_in_time(job.order, "")};
  nodes.front().open_files = open_files;
  const Findings findings = examine_alone(job, nodes.front(), error);
  const std::string text =
      job.order.json ? report_json(findings, nodes) : report_text(findings, nodes);
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 1;
  const Error unwritten = os_error("cannot write the report", errno);
  log::error(unwritten.message);
  return agent::exit_code(unwritten);
}

/// The exit code. If no worker has made a report, makes one first.
int conclude(const Job& job, const agent::Outcome& outcome, std::int64_t open_files) {
  if (const auto* error = std::get_if<Error>(&outcome)) {
    return report_alone(job, *error, open_files);
  }
  if (const auto* failed = std::get_if<agent::JobFailed>(&outcome)) return failed->code;
  const auto* interrupted = std::get_if<agent::Interrupted>(&outcome);
  return interrupted == nullptr ? 0 : 128 + interrupted->signal;
}

}  // namespace

Job make_job(agent::JobSpec spec, Order order, const std::string& executable) {
  Job job{without_workers(std::move(spec)), std::move(order)};
  job.spec.program = executable;
  // Nodes compare only the last word, as their orders may differ.
  job.spec.command = {"ddprun", kNodeWord, encode(job.order), kCommand};
  job.spec.own_arguments = job.spec.command.size();
  job.spec.workers_report = true;
  return job;
}

int run(const Job& job, agent::Events& events) {
  Facts before;
  read_resources(before);  // first: the agent raises its limit of open files, but not the workers'
  const agent::Outcome outcome = agent::run(job.spec, events);
  const int code = conclude(job, outcome, before.open_files);
  events.job_ended(outcome, code);
  return code;
}

}  // namespace ddprun::doctor
