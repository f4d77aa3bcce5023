// SPDX-License-Identifier: Apache-2.0
#include "agent/web/metrics.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/paths.h"

using ddprun::agent::ask::JobStatus;
using ddprun::agent::ask::NodeStatus;
using ddprun::agent::web::History;
using ddprun::agent::web::label_value;
using ddprun::agent::web::metrics_text;
using ddprun::tests::contains;
using ddprun::tests::source_path;

namespace {

JobStatus measured_job() {
  JobStatus job;
  job.job = "train-7";
  job.program = "python3 -c 'print(\"a\\n\")'";
  job.master = "gpu-01:29500";
  job.round = 2;
  job.restarts = 1;
  job.world_size = 4;
  NodeStatus& node = job.nodes.emplace_back();
  node.host = "gpu-01";
  node.state = "running";
  node.ranks = {{0, 11, "running", "futex", 60.5, 59.25, 1 << 20, 0.5},
                {1, 12, "stopped", "", 60.5, 3, 4096, std::nullopt},
                {2, 13, "failed", "exit 1", 12, 0, 0, 7.0}};
  node.ranks[0].heartbeat_age = 0.25;
  node.ranks[0].progress = "step 1200: loss 0.3";
  node.ranks[1].progress = "evaluating";
  node.ranks[0].gpu =
      ddprun::agent::ask::GpuStatus{"0", 1ull << 30, 1ull << 31, 0.97, 512.5, "too hot"};
  node.ranks[0].collectives = 121;
  node.ranks[1].gpu = ddprun::agent::ask::GpuStatus{.names = "1"};
  NodeStatus& lost = job.nodes.emplace_back();
  lost.host = "gpu-02";
  lost.state = "running";
  lost.problem = "no answer";
  return job;
}

std::string document(const std::string& name) {
  std::ifstream file(source_path("docs/" + name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All words of `text` that begin with "ddprun_".
std::set<std::string> names_in(const std::string& text) {
  constexpr const char* kOfName = "abcdefghijklmnopqrstuvwxyz_";
  std::set<std::string> names;
  for (size_t at = 0; (at = text.find("ddprun_", at)) != std::string::npos; ++at) {
    const size_t end = std::min(text.find_first_not_of(kOfName, at), text.size());
    names.insert(text.substr(at, end - at));
  }
  return names;
}

}  // namespace

TEST_CASE("web metrics: the docs have exactly these names, and the dashboard no others") {
  History history;
  history.failed(1, {}, "");
  std::string samples;
  const std::string text = metrics_text(measured_job(), history, 1);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text[at] != '#') samples += text.substr(at, text.find_first_of(" {", at) - at) + "\n";
  }
  const std::set<std::string> written = names_in(samples);
  CHECK(written.size() == 22);
  CHECK(names_in(document("web.md")) == written);
  const std::set<std::string> shown = names_in(document("grafana.json"));
  CHECK(shown.size() > 5);
  for (const std::string& name : shown) {
    INFO(name);
    CHECK(written.contains(name));
  }
}

TEST_CASE("web metrics: families have the form of OpenMetrics") {
  History history;
  ddprun::rendezvous::Failure failure;
  failure.pid = 1;
  history.round_began(1, {});
  history.failed(10, failure, "rank 2 failed first");
  const std::string text = metrics_text(measured_job(), history, 12.5);
  for (const char* lines :
       {"# TYPE ddprun_job info\n# HELP ddprun_job The job.\n",
        "\nddprun_job_info{job=\"train-7\",program",
        R"(,program="python3 -c 'print(\"a\\n\")'",master="gpu-01:29500"} 1)",
        "\nddprun_round 2\n",
        "\n# TYPE ddprun_restarts counter\n",
        "\nddprun_restarts_total 1\n",
        "\nddprun_failures_total{cause=\"exit\"} 1\n",
        "\nddprun_downtime_seconds_total 2.5\n",
        "\nddprun_hang 0\n",
        "\nddprun_nodes{state=\"no answer\"} 1\n",
        "\nddprun_nodes{state=\"running\"} 1\n",
        "\nddprun_workers{state=\"ended\"} 0\n",
        "\nddprun_workers{state=\"failed\"} 1\n",
        "\nddprun_workers{state=\"running\"} 1\n",
        "\nddprun_workers{state=\"stopped\"} 1\n",
        "\nddprun_worker_cpu_seconds_total{rank=\"0\",host=\"gpu-01\"} 59.25\n",
        "\nddprun_worker_resident_bytes{rank=\"1\",host=\"gpu-01\"} 4096\n",
        "\nddprun_worker_output_age_seconds{rank=\"2\",host=\"gpu-01\"} 7\n",
        "\nddprun_worker_heartbeat_age_seconds{rank=\"0\",host=\"gpu-01\"} 0.25\n",
        "\nddprun_worker_step{rank=\"0\",host=\"gpu-01\"} 1200\n",
        "\nddprun_worker_collectives_total{rank=\"0\",host=\"gpu-01\"} 121\n",
        "\nddprun_worker_gpu_memory_bytes{rank=\"0\",host=\"gpu-01\"} 1073741824\n",
        "\nddprun_worker_gpu_memory_total_bytes{rank=\"0\",host=\"gpu-01\"} 2147483648\n",
        "\nddprun_worker_gpu_utilization_ratio{rank=\"0\",host=\"gpu-01\"} 0.97\n",
        "\nddprun_worker_gpu_power_watts{rank=\"0\",host=\"gpu-01\"} 512.5\n",
        "\nddprun_worker_gpu_slowed{rank=\"0\",host=\"gpu-01\"} 1\n"}) {
    INFO(lines);
    CHECK(contains("\n" + text, lines));
  }
  CHECK(!contains(text, "worker_cpu_seconds_total{rank=\"2\""));   // it has ended
  CHECK(!contains(text, "worker_output_age_seconds{rank=\"1\""));  // there was none
  CHECK(!contains(text, "worker_heartbeat_age_seconds{rank=\"1\""));
  CHECK(!contains(text, "worker_step{rank=\"1\""));              // it says no number
  CHECK(!contains(text, "worker_gpu_memory_bytes{rank=\"1\""));  // the driver said nothing
  CHECK(text.ends_with("\n# EOF\n"));
}

TEST_CASE("web metrics: the words of others can neither end a label nor make new states") {
  CHECK(label_value("a\"b\\c\nd") == "\"a\\\"b\\\\c\\nd\"");
  JobStatus job = measured_job();
  job.nodes[0].ranks[0].state = "x\"} 1\nddprun_forged 7";
  const std::string text = metrics_text(job, History(), 0);
  CHECK(!contains(text, "ddprun_forged"));
  CHECK(contains(text, "ddprun_workers{state=\"unknown\"} 1\n"));
}
