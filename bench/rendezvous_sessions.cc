// SPDX-License-Identifier: Apache-2.0
// The master's decisions when something happens to thousands of nodes at once, without sockets.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "bench/rendezvous_parts.h"
#include "rendezvous/session/server_sessions.h"

namespace ddprun::bench {
namespace {

using namespace rendezvous;

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// A master and its nodes, each of which sends what an agent would.
class SimulatedJob {
 public:
  explicit SimulatedJob(std::size_t nodes) : lines_(nodes), sessions_(options(nodes)) {}

  std::size_t size() const { return lines_.size(); }

  /// Greets on a new connection.
  void greet(std::size_t node) {
    lines_[node] = ++last_line_;
    sessions_.connected(lines_[node], "10.0.0.1", kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = static_cast<int>(size());
    hello.host = hello.session = "node-" + std::to_string(node);
    send(node, hello);
  }

  void join(std::size_t node, int last_round = -1) {
    JoinRequest request;
    request.local_size = 8;
    request.host = "node-" + std::to_string(node);
    request.last_round = last_round;
    request.last_node_rank = last_round < 0 ? -1 : static_cast<int>(node);
    send(node, message::Join{request});
  }

  void fail(std::size_t node, int round) {
    Failure failure;
    failure.rank = static_cast<int>(8 * node);
    failure.wait_status = 1 << 8;
    failure.stderr_tail = std::string(4'000, 'x');
    send(node, message::Fail{round, failure});
  }

  void disconnect(std::size_t node) { sessions_.lost(lines_[node], now_); }

  /// Waits until the master has something to do.
  void wait() {
    now_ = sessions_.deadline().value_or(now_);
    sessions_.tick(now_);
  }

 private:
  static ServerSessions::Options options(std::size_t nodes) {
    ServerSessions::Options options;
    options.name = "bench";
    options.round.min_nodes = options.round.max_nodes = static_cast<int>(nodes);
    options.round.max_restarts = 9;
    return options;
  }

  void send(std::size_t node, const Message& message) {
    sessions_.received(lines_[node], message, now_);
  }

  std::vector<ConnectionId> lines_;
  ConnectionId last_line_ = 0;
  ServerSessions::Time now_{std::chrono::hours(1)};
  ServerSessions sessions_;
};

template <class Step>
void print_step(const char* name, Step step) {
  const double begin = cpu_ms();
  step();
  std::printf("  %-66s %8.1f ms\n", name, cpu_ms() - begin);
}

void measure(std::size_t nodes) {
  std::printf("\nN = %zu, CPU time of the master's decisions\n", nodes);
  SimulatedJob job(nodes);
  const auto all = [&](auto step) {
    for (std::size_t node = 0; node < job.size(); ++node) step(node);
  };
  const auto come = [&](std::size_t node) {
    job.greet(node);
    job.join(node);
  };
  print_step("all join", [&] { all(come); });
  all([&](std::size_t node) { job.disconnect(node); });
  job.greet(0);
  job.fail(0, 0);
  print_step("all are back while a failure waits for that", [&] {
    for (std::size_t node = 1; node < job.size(); ++node) job.greet(node);
  });
  all([&](std::size_t node) { job.join(node, 0); });
  job.disconnect(job.size() - 1);
  print_step("one is unreachable, all others report a failure and join again", [&] {
    for (std::size_t node = 0; node + 1 < job.size(); ++node) job.fail(node, 1);
    for (std::size_t node = 0; node + 1 < job.size(); ++node) job.join(node, 1);
    job.greet(job.size() - 1);
  });
  job.join(job.size() - 1, 1);
  print_step("all leases are over", [&] { job.wait(); });
  print_step("all come back as new nodes", [&] { all(come); });
}

}  // namespace

void measure_sessions() {
  for (const std::size_t nodes : {2'500, 10'000, 12'500}) measure(nodes);
}

}  // namespace ddprun::bench
