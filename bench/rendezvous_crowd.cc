// SPDX-License-Identifier: Apache-2.0
#include "bench/rendezvous_crowd.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/ask/node_questions.h"
#include "agent/ask/status_text.h"
#include "agent/ask/whole_job.h"
#include "base/secret.h"
#include "bench/rendezvous_parts.h"
#include "bench/stamp.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/client.h"
#include "rendezvous/session/server.h"

namespace ddprun::bench {

namespace {

namespace asio = boost::asio;
using rendezvous::Client;

constexpr int kLocalSize = 8;
constexpr int kLastLines = 20;  // of a failed worker's stderr: 4 KiB, the most that is reported

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench_rendezvous: %s\n", what.c_str());
  _exit(1);
}

template <class Value>
void send_value(int socket, const Value& value) {
  if (write(socket, &value, sizeof value) != sizeof value) _exit(1);
}

/// Calls `handle` for each command. When the other side ends, the process ends.
class Commands {
 public:
  Commands(asio::io_context& io, int socket, std::function<void(char)> handle)
      : socket_(io, socket), handle_(std::move(handle)) {
    wait();
  }

 private:
  void wait() {
    socket_.async_read_some(asio::buffer(&command_, 1),
                            [this](boost::system::error_code closed, std::size_t) {
                              if (closed) _exit(0);
                              handle_(command_);
                              wait();
                            });
  }

  asio::posix::stream_descriptor socket_;
  std::function<void(char)> handle_;
  char command_ = 0;
};

double cpu_seconds(const rusage& used) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The usage of this process; the caller is its event loop.
Usage usage() {
  rusage process{};
  getrusage(RUSAGE_SELF, &process);
  rusage loop{};
  getrusage(RUSAGE_THREAD, &loop);
  return {cpu_seconds(process), cpu_seconds(loop), static_cast<double>(process.ru_maxrss) / 1024};
}

/// Encrypts the lines of a job with a secret.
std::shared_ptr<const rendezvous::Security> security_of(bool secret) {
  if (!secret) return nullptr;
  const auto security = rendezvous::Security::of_job(Secret(std::string(32, 's')), "bench");
  if (!security) give_up(security.error().message);
  return *security;
}

/// The status of a node with 8 workers, in the form in which its agent answers.
std::string node_status(const std::string& host, int first_rank) {
  agent::ask::NodeStatus node;
  node.host = host;
  node.state = "running";
  node.first_rank = first_rank;
  node.local_size = kLocalSize;
  for (int i = 0; i < kLocalSize; ++i) {
    node.ranks.push_back(
        {first_rank + i, 4711 + i, "running", "poll", 3612.345, 3601.234, 12'345'678'912, 1.234});
  }
  agent::ask::JobStatus status;
  status.job = "bench";
  status.program = "./train --epochs 90 --data /data/imagenet";
  status.state = node.state;
  status.world_size = kLocalSize;
  status.nodes.push_back(std::move(node));
  return agent::ask::to_json(status);
}

/// Turns the answers of all nodes into the text for a terminal. Returns how many are complete.
std::size_t show_status(const agent::ask::NodeAnswers& answers) {
  const std::string json = agent::ask::to_json(agent::ask::whole_status({}, answers));
  const auto status = agent::ask::status_in(json);
  if (!status) give_up(status.error().message);
  if (agent::ask::status_text(*status, {}).empty()) give_up("a status without text");
  return static_cast<std::size_t>(std::ranges::count_if(status->nodes, [](const auto& node) {
    return node.problem.empty() && node.ranks.size() == kLocalSize;
  }));
}

/// State that the agents of a part share.
struct Crowd {
  Part part;
  int socket;
  std::shared_ptr<const rendezvous::Security> security;
  int ready = 0;   ///< agents that have their layout
  int broken = 0;  ///< agents that know that their round is broken

  void count(int& agents) const {
    if (++agents < part.count) return;
    agents = 0;
    send_value(socket, Progress{monotonic_ns()});
  }
};

/// One node's agent, whose workers start and stop immediately.
class SimulatedAgent {
 public:
  SimulatedAgent(asio::io_context& io, Crowd& crowd, int number)
      : crowd_(crowd),
        client_(io.get_executor(), options(number), [this](const auto& event) { on(event); }),
        questions_(io.get_executor(),
                   [this](auto inquiry) { client_.inquire(std::move(inquiry)); }) {
    request_.local_size = kLocalSize;
    request_.host = options(number).host;
  }

  void join() { client_.join(request_); }

  void ask_status() {
    questions_.ask(
        "/status?node=1", [](const rendezvous::ListedNode&) { return true; },
        [this, began = monotonic_ns()](const agent::ask::NodeAnswers& answers) {
          const std::size_t complete = show_status(answers);
          send_value(crowd_.socket, Asked{ms(began, monotonic_ns()), complete});
        });
  }

  void fail() {
    rendezvous::Failure failure;
    failure.rank = layout_.first_rank;
    failure.wait_status = 1 << 8;
    failure.pid = getpid();
    failure.host = request_.host;
    for (int line = 0; line < kLastLines; ++line)
      failure.stderr_tail += std::string(200, 'x') + '\n';
    client_.fail(layout_.round, failure);
  }

 private:
  Client::Options options(int number) const {
    Client::Options options;
    options.server = {"127.0.0.1", crowd_.part.port};
    options.run_id = "bench";
    options.min_nodes = options.max_nodes = crowd_.part.nodes;
    options.host = "gpu-" + std::to_string(10'000 + number);
    options.security = crowd_.security;
    return options;
  }

  void on(const rendezvous::NodeEvent& event) {
    namespace node_event = rendezvous::node_event;
    if (const auto* notified = std::get_if<node_event::Notified>(&event)) {
      on_notification(notified->notification);
    } else if (const auto* changed = std::get_if<node_event::ConnectionChanged>(&event)) {
      give_up(changed->sentence);
    } else if (std::holds_alternative<node_event::LeaseOver>(event)) {
      give_up("a lease ran out: this machine is too busy");
    } else if (const auto* lost = std::get_if<node_event::RoundLost>(&event)) {
      give_up(lost->reason);
    } else if (const auto* ended = std::get_if<node_event::GaveUp>(&event)) {
      give_up(ended->error.message);
    } else if (const auto* inquiring = std::get_if<node_event::Inquiring>(&event)) {
      on_inquiry(inquiring->inquiry);
    }
  }

  void on_notification(const rendezvous::Notification& notification) {
    if (const auto* ready = std::get_if<rendezvous::Ready>(&notification)) {
      layout_ = ready->layout;
      return crowd_.count(crowd_.ready);
    }
    const auto* broken = std::get_if<rendezvous::Broken>(&notification);
    if (broken == nullptr) give_up("the job is over");
    crowd_.count(crowd_.broken);
    join_again(broken->restarts);
  }

  void on_inquiry(const rendezvous::Inquiry& inquiry) {
    const auto* asked = std::get_if<rendezvous::Inquired>(&inquiry);
    if (asked == nullptr) return questions_.received(inquiry);
    client_.inquire(rendezvous::Inform{asked->asker, asked->number,
                                       node_status(request_.host, layout_.first_rank)});
  }

  void join_again(int restarts) {
    request_.last_round = layout_.round;
    request_.last_node_rank = layout_.node_rank;
    request_.last_guests = layout_.guests;
    request_.restarts = restarts;
    request_.worker_exits = {};
    for (int i = 0; i < kLocalSize; ++i) {
      request_.worker_exits.stopped.push_back(layout_.first_rank + i);
    }
    request_.worker_exits.signal = "SIGTERM";
    request_.worker_exits.seconds = 0.012;
    join();
  }

  Crowd& crowd_;
  rendezvous::JoinRequest request_;
  rendezvous::Layout layout_;
  Client client_;
  agent::NodeQuestions questions_;
};

}  // namespace

ChildProcess::ChildProcess(const std::function<void(int socket)>& serve) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    give_up("socketpair failed");
  }
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ < 0) give_up("fork failed");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    serve(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  socket_.reset(ends[0]);
}

ChildProcess::~ChildProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::send(char command) const {
  if (write(socket_.get(), &command, 1) != 1) give_up("a process of the benchmark has ended");
}

void ChildProcess::read(void* value, std::size_t size) const {
  if (recv(socket_.get(), value, size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
    give_up("a process of the benchmark has ended");
  }
}

void serve_rendezvous(int socket, int nodes, bool secret) {
  asio::io_context io(1);
  rendezvous::Server::Options options;
  options.run_id = "bench";
  options.round.min_nodes = options.round.max_nodes = nodes;
  options.round.max_restarts = 1;
  options.security = security_of(secret);
  const std::vector here = {asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  const auto server = rendezvous::Server::listen(io.get_executor(), here, options);
  if (!server) give_up(server.error().message);
  send_value(socket, std::uint16_t{(*server)->address().port()});
  const Commands commands(io, socket, [socket](char) { send_value(socket, usage()); });
  io.run();
}

void run_agents(int socket, const Part& part) {
  asio::io_context io(1);
  Crowd crowd{part, socket, security_of(part.secret)};
  std::vector<std::unique_ptr<SimulatedAgent>> agents;
  for (int i = 0; i < part.count; ++i) {
    agents.push_back(std::make_unique<SimulatedAgent>(io, crowd, part.first + i));
  }
  const Commands commands(io, socket, [&](char command) {
    if (command == 't') return send_value(socket, tcp_traffic());
    if (command == 'f') return agents.front()->fail();
    if (command == 's') return agents.front()->ask_status();
    for (const auto& agent : agents) agent->join();
  });
  send_value(socket, Progress{monotonic_ns()});  // ready to begin
  io.run();
}

}  // namespace ddprun::bench
