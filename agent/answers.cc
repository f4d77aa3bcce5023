// SPDX-License-Identifier: Apache-2.0
#include "agent/answers.h"

#include <unistd.h>
#include <utility>

#include "agent/ask/socket_folder.h"
#include "base/log.h"
#include "launcher/process_sample.h"
#include "launcher/process_use.h"

namespace ddprun::agent {
namespace {

/// Adds what the kernel says of the workers that run.
ask::JobStatus looked_at(ask::JobStatus status) {
  for (ask::NodeStatus& node : status.nodes) {
    for (ask::RankStatus& rank : node.ranks) {
      if (rank.state != "running") continue;
      const launcher::ProcessSample sample = launcher::sample_process(rank.pid);
      const launcher::ProcessUse use = launcher::process_use(rank.pid);
      if (sample.state == 'T' && !sample.traced) rank.state = "stopped";
      rank.how = sample.state == 'D' ? "uninterruptible" : sample.call;
      rank.cpu_seconds = use.cpu_seconds;
      rank.memory = use.resident;
    }
  }
  return status;
}

}  // namespace

Answers::Answers(boost::asio::any_io_executor executor, Hooks hooks)
    : hooks_(std::move(hooks)),
      looks_(executor),
      server_(executor, [this](const ask::Question& question, const ask::Respond& respond) {
        routes_.ask(question, respond);
      }) {
  routes_.add("GET", "/status", [this](const ask::Question&, const ask::Respond& respond) {
    answer_status(respond);
  });
}

/// The guardian is the process that the user knows.
void Answers::open(const std::string& run_id) {
  const Result<std::string> path = ask::socket_path(ask::socket_folders(), run_id, getppid());
  const Result<> listening = path ? server_.listen(*path) : Result<>(path.error());
  if (!listening) log::debug("nobody can ask about this job: " + listening.error().message);
}

void Answers::answer_status(const ask::Respond& respond) {
  looks_.run([status = hooks_.status()] { return ask::to_json(looked_at(status)) + "\n"; },
             [respond](std::string body) { respond({200, std::move(body)}); });
}

}  // namespace ddprun::agent
