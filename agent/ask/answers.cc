// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/answers.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <variant>

#include "agent/ask/socket_folder.h"
#include "agent/ask/whole_job.h"
#include "agent/worker/flight_recorder.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "launcher/devices/devices.h"
#include "launcher/kernel/control_groups.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/process/process_use.h"
#include "launcher/process/worker_calls.h"

namespace ddprun::agent {
namespace {

/// Per node: answers between nodes are bounded in size.
constexpr size_t kMostRanksReported = 256;

/// A worker that is throttled in a smaller share of its periods is rarely the bottleneck.
constexpr double kMuchThrottled = 0.5;

/// "throttled: its CPU quota is 0.2 CPUs".
std::string throttled_text(const launcher::CpuQuota& quota) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s: its CPU quota is %.3g CPUs", ask::kThrottled,
                quota.cpus);
  return text.data();
}

/// "throttled: GPU 3 is too hot".
std::string throttled_text(const ask::GpuStatus& gpu) {
  return std::string(ask::kThrottled) + ": GPU " + gpu.names + " is " + gpu.slowed;
}

void add(ask::GpuStatus& gpu, const launcher::GpuUse& use) {
  gpu.memory += use.memory;
  gpu.memory_total += use.memory_total;
  if (use.busy) gpu.busy = gpu.busy.value_or(0) + *use.busy;
  if (use.watts) gpu.watts = gpu.watts.value_or(0) + *use.watts;
  if (gpu.slowed.empty()) gpu.slowed = use.slowed;
}

/// Adds what the driver reports about the GPUs of this name, such as "0,1".
void add_uses(ask::GpuStatus& gpu, const GpuWatch::Uses& uses) {
  int count = 0;
  for (const std::string& name : launcher::parse_visible_devices(gpu.names).names) {
    const auto use = uses.find(name);
    if (use == uses.end()) continue;
    add(gpu, use->second);
    count += use->second.busy ? 1 : 0;
  }
  if (gpu.busy) *gpu.busy /= count;
}

std::string missing_rank_text(int rank, const ask::JobStatus& job) {
  const std::string last = std::to_string(job.world_size - 1);
  return "there is no rank " + std::to_string(rank) + ": " +
         (job.world_size == 0   ? "no round has begun yet"
          : job.world_size == 1 ? "this job has rank 0 only"
                                : "this job has ranks 0 to " + last);
}

bool has_failed(const ask::RankStatus& rank) {
  return rank.state == "failed";
}

void add_calls(ask::RankStatus& rank, const std::vector<launcher::WorkerCall>& calls) {
  if (calls.empty()) return;
  std::uint64_t begun = 0;
  for (const launcher::WorkerCall& call : calls) begun += call.begun;
  if (begun > 0) rank.collectives = begun;
  if (rank.progress.empty()) rank.progress = launcher::call_text(calls);
}

/// Adds what the kernel reports about a running worker, its calls, and the driver about its GPUs.
void look_at(ask::RankStatus& rank, const std::vector<launcher::WorkerCall>& calls,
             const GpuWatch::Uses& uses) {
  const launcher::ProcessSample sample = launcher::sample_process(rank.pid);
  const launcher::ProcessUse use = launcher::use_of_process(rank.pid);
  rank.cpu_seconds = use.cpu_seconds;
  rank.memory = use.resident;
  if (rank.gpu) add_uses(*rank.gpu, uses);
  add_calls(rank, calls);
  if (sample.state == 'T' && !sample.traced) rank.state = "stopped";
  rank.how = sample.state == 'D' ? "uninterruptible" : sample.call;
  // If a process is stopped or waits for a disk, its quota is not the reason.
  if (sample.frozen) rank.how = "frozen by its control group";
  if (rank.state != "running" || sample.state == 'D') return;
  if (rank.gpu && !rank.gpu->slowed.empty()) rank.how = throttled_text(*rank.gpu);
  const auto quota = launcher::cpu_quota_of(rank.pid);
  if (quota && quota->throttled > kMuchThrottled) rank.how = throttled_text(*quota);
}

using WorkerCalls = std::map<int, std::vector<launcher::WorkerCall>>;

std::vector<ask::GroupArrivals> arrivals_of(const WorkerCalls& workers) {
  std::vector<ask::RankCalls> ranks;
  for (const auto& [rank, calls] : workers) {
    for (const launcher::WorkerCall& call : calls) {
      ranks.push_back({rank, call.group, call.members, call.begun, call.times});
    }
  }
  return ask::arrivals_of(ranks);
}

/// Keeps `most` ranks at most, the failed ones first.
void limit_ranks(ask::NodeStatus& node, size_t most) {
  if (node.ranks.size() <= most) return;
  node.problem =
      std::to_string(most) + " of its " + std::to_string(node.ranks.size()) + " ranks are shown";
  std::stable_partition(node.ranks.begin(), node.ranks.end(), has_failed);
  node.ranks.resize(most);
}

/// Adds samples of the running workers of this node. Returns their collective calls.
WorkerCalls look_at(ask::NodeStatus& node, const GpuWatch::Uses& uses) {
  std::vector<WorkerProcess> running;
  for (const ask::RankStatus& rank : node.ranks) {
    if (rank.state == "running") running.push_back({rank.rank, rank.pid, rank.recorder});
  }
  WorkerCalls calls = calls_of(running);
  for (ask::RankStatus& rank : node.ranks) {
    if (rank.state == "running") look_at(rank, calls.at(rank.rank), uses);
  }
  for (const auto& [rank, its] : calls) {
    if (!its.empty() && !its.back().release.empty())
      node.releases[its.back().release].push_back(rank);
  }
  return calls;
}

/// Adds samples of this node's workers, for another node that asked at `asked`, or nullopt: for the
/// user, with this node alone.
ask::JobStatus looked_at(ask::JobStatus status, std::optional<std::int64_t> asked,
                         const GpuWatch::Uses& uses) {
  ask::NodeStatus& own = status.nodes.front();
  if (asked) limit_ranks(own, kMostRanksReported);
  auto arrivals = arrivals_of(look_at(own, uses));
  if (asked) {
    own.arrivals =
        ask::TimedArrivals{.clock = {*asked, host_microseconds()}, .groups = std::move(arrivals)};
  } else {
    status.slow = ask::slow_rank({{.groups = std::move(arrivals)}});
  }
  return status;
}

/// Without the arrivals that do not fit into an answer to a node.
std::string status_body(ask::JobStatus status) {
  std::string body = ask::to_json(status);
  auto& arrivals = status.nodes.front().arrivals;
  while (arrivals && !arrivals->groups.empty() && body.size() > rendezvous::kMaxAnswer) {
    arrivals->groups.pop_back();
    body = ask::to_json(status);
  }
  return body + "\n";
}

}  // namespace

Answers::Answers(boost::asio::any_io_executor executor, std::vector<std::string> devices,
                 Hooks hooks)
    : hooks_(std::move(hooks)),
      nodes_(executor, hooks_.send),
      gpus_(executor, std::move(devices)),
      looks_(executor),
      server_(executor, [this](const ask::Question& question, const ask::Respond& respond) {
        routes_.ask(question, respond);
      }) {
  using ask::Question;
  using ask::Respond;
  routes_.add("GET", "/status", [this](const Question& question, const Respond& respond) {
    answer_status(question, respond);
  });
  routes_.add("GET", "/logs/", [this](const Question& question, const Respond& respond) {
    answer_log(question, respond);
  });
  routes_.add("POST", "/stop",
              [this](const Question&, const Respond& respond) { answer_stop(respond); });
}

/// The path contains the guardian's pid: the user started that process.
void Answers::open(const std::string& job) {
  const Result<std::string> path = ask::socket_path(ask::socket_folders(), job, getppid());
  const Result<> listening = path ? server_.listen(*path) : Result<>(path.error());
  if (!listening)
    log::warning("ddprun status and the like cannot ask this job: " + listening.error().message);
}

void Answers::received(const rendezvous::Inquiry& inquiry) {
  if (const auto* inquired = std::get_if<rendezvous::Inquired>(&inquiry)) answer_node(*inquired);
  if (std::holds_alternative<rendezvous::StopJob>(inquiry) && !std::exchange(stopping_, true)) {
    hooks_.stop();
  }
  nodes_.received(inquiry);
}

/// Answers only GET questions about this node alone.
void Answers::answer_node(const rendezvous::Inquired& inquired) {
  const std::string& asked = inquired.question;
  const size_t end = std::min(asked.find('?'), asked.size());
  ask::Question question{"GET", asked.substr(0, end), asked.substr(std::min(end + 1, asked.size())),
                         ""};
  const auto respond = [this, asker = inquired.asker, number = inquired.number,
                        alive = std::weak_ptr(alive_)](ask::Answer answer) {
    if (alive.expired()) return;
    while (answer.body.ends_with('\n')) answer.body.pop_back();
    hooks_.send(
        rendezvous::Inform{asker, number, rendezvous::answer_to_send(std::move(answer.body))});
  };
  if (ask::query_value(question.query, "node") != "1")
    return respond(ask::refusal(404, "not for nodes"));
  routes_.ask(std::move(question), respond);
}

void Answers::answer_status(const ask::Question& question, const ask::Respond& respond) {
  if (ask::query_value(question.query, "node") == "1") return answer_node_status(respond);
  if (!hooks_.has_master()) return answer_own_status("which cannot be reached now", respond);
  nodes_.ask(
      "/status?node=1", [](const rendezvous::ListedNode&) { return true; },
      [this, respond, alive = std::weak_ptr(alive_)](ask::NodeAnswers answers) {
        if (alive.expired()) return;
        const bool is_silent = answers.nodes.empty() && answers.waiting.empty();
        if (is_silent) return answer_own_status("which does not answer", respond);
        looks_.run(
            [own = hooks_.status(), answers = std::move(answers)] {
              return ask::to_json(ask::whole_status(own, answers)) + "\n";
            },
            [respond](std::string body) { respond({200, std::move(body)}); });
      });
}

/// Answers with this node alone: only the master knows the others.
void Answers::answer_own_status(const std::string& why, const ask::Respond& respond) {
  ask::JobStatus own = hooks_.status();
  own.waiting = "the master at " + own.master + ", " + why;
  look(std::move(own), std::nullopt, respond);
}

void Answers::look(ask::JobStatus status, std::optional<std::int64_t> asked,
                   const ask::Respond& respond) {
  gpus_.look([this, status = std::move(status), asked, respond](const GpuWatch::Uses& uses) {
    looks_.run([status, asked, uses] { return status_body(looked_at(status, asked, uses)); },
               [respond](std::string body) { respond({200, std::move(body)}); });
  });
}

void Answers::answer_node_status(const ask::Respond& respond) {
  look(hooks_.status(), host_microseconds(), respond);
}

void Answers::answer_log(const ask::Question& question, const ask::Respond& respond) {
  const auto rank = whole_number<std::uint64_t>(question.rest);
  const auto from =
      whole_number<std::uint64_t>(ask::query_value(question.query, "from")).value_or(0);
  if (!rank || *rank > INT_MAX) {
    return respond(ask::refusal(400, "a rank is a number, not '" + printable(question.rest) + "'"));
  }
  const int number = static_cast<int>(*rank);
  const std::string missing = missing_rank_text(number, hooks_.status());
  if (const auto piece = hooks_.log(number, from))
    return respond({200, ask::to_json(*piece) + "\n"});
  if (ask::query_value(question.query, "node") == "1" || !hooks_.has_master()) {
    return respond(ask::refusal(404, missing));
  }
  const auto has_rank = [number](const rendezvous::ListedNode& node) {
    return node.node_rank >= 0 && node.first_rank <= number &&
           number - node.first_rank < node.local_size;
  };
  nodes_.ask("/logs/" + std::to_string(number) + "?node=1&from=" + std::to_string(from), has_rank,
             [respond, missing](const ask::NodeAnswers& answers) {
               if (answers.nodes.size() != 1) return respond(ask::refusal(404, missing));
               const ask::NodeAnswer& node = answers.nodes.front();
               if (ask::is_refusal(node.answer)) return respond({404, node.answer + "\n"});
               if (!node.answer.empty()) return respond({200, node.answer + "\n"});
               respond(ask::refusal(503, printable(node.node.host) + ": " + node.problem));
             });
}

/// The message may get lost, so the asker may repeat the question until this node stops. Then
/// nothing is sent: the master may already belong to a restarted job.
void Answers::answer_stop(const ask::Respond& respond) {
  if (!stopping_ && !hooks_.has_master()) {
    return respond(
        ask::refusal(503, "the master cannot be reached now; to stop only this node: kill " +
                              std::to_string(getppid())));
  }
  if (!stopping_) hooks_.send(rendezvous::StopJob{});
  respond({200, "{\"stopping\":true}\n"});
}

}  // namespace ddprun::agent
