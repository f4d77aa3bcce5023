// SPDX-License-Identifier: Apache-2.0
// The site of a job that is too large for a test machine, for the tests with a browser.
#include <cstdio>
#include <string>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/ask/log_piece.h"
#include "agent/ask/status.h"
#include "agent/web/site.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace {

using namespace ddprun::agent;

constexpr int kNodes = 125;
constexpr int kLocalSize = 8;
constexpr int kSilentNode = 3;
constexpr double kSeconds = 7300;  // since the job began

ask::NodeStatus node_of_large_job(int node_rank) {
  ask::NodeStatus node;
  node.host = "gpu-" + std::to_string(node_rank) + "<b>";
  node.node_rank = node_rank;
  node.state = "running";
  node.first_rank = node_rank * kLocalSize;
  node.local_size = kLocalSize;
  if (node_rank == kSilentNode) node.problem = "no answer";
  for (int rank = node.first_rank; node.problem.empty() && rank < node.first_rank + kLocalSize;
       ++rank) {
    node.ranks.push_back({rank, 1000 + rank, "running", "futex", 3600, 3500.0 + rank % 7,
                          (9ULL << 30) + static_cast<unsigned>(rank) * 1'000'000ULL, rank * 0.01});
  }
  return node;
}

ask::JobStatus large_job() {
  ask::JobStatus job;
  job.job = "large <img src=x>";
  job.program = "python3 train.py --name '<script>alert(1)</script>'";
  job.state = "running";
  job.round = 2;
  job.restarts = 2;
  job.max_restarts = 3;
  job.world_size = kNodes * kLocalSize;
  job.node_count = kNodes;
  job.seconds = kSeconds;
  for (int i = 0; i < kNodes; ++i) job.nodes.push_back(node_of_large_job(i));
  job.nodes[0].ranks[7].state = "failed";
  job.nodes[0].ranks[7].how = "exit 1";
  job.nodes[12].ranks[4].state = "stopped";
  job.nodes[20].ranks[0].output_age = 1000;
  return job;
}

void answer_of_large_job(const ask::Question& question, const ask::Respond& respond) {
  if (question.path == "/status") return respond({200, ask::to_json(large_job()) + "\n"});
  if (question.path == "/stacks") return respond({200, R"({"notes":[],"stacks":[]})"});
  respond({200, ask::to_json(ask::log_piece(0, 2, 0, "<script>alert(1)</script>\n"))});
}

void note_large_job(web::History& history) {
  ddprun::rendezvous::Layout layout;
  layout.world_size = kNodes * kLocalSize;
  layout.node_count = kNodes;
  ddprun::rendezvous::Failure failure;
  failure.pid = 1;
  for (layout.round = 0; layout.round < 3; ++layout.round) {
    history.round_began(2000 * layout.round, layout);
    if (layout.round < 2) {
      history.failed(1860 + 2000 * layout.round, failure,
                     "rank 7 failed first: exit 1 after 31 min (host gpu-0, pid 1007): <b>no</b>");
    }
  }
  history.stalled(
      kSeconds,
      "no rank has made progress for 10 min (round 2)\n"
      "rank 100 (gpu-12) is the likely cause: stopped by a signal, while ranks 0-99 waited");
}

}  // namespace

TEST_CASE("serves until its input ends", "[.serves_a_large_job]") {
  boost::asio::io_context io{1};
  web::Site site(io.get_executor(), answer_of_large_job, "gpu-0");
  site.tell([](web::History& history, double) { note_large_job(history); });
  std::printf("page and metrics of the job: %s\n",
              ddprun::must(site.open({"127.0.0.1", 0})).c_str());
  std::fflush(stdout);
  boost::asio::posix::stream_descriptor input(io, dup(STDIN_FILENO));
  input.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   [&io](boost::system::error_code) { io.stop(); });
  io.run();
  SUCCEED();
}
