// SPDX-License-Identifier: Apache-2.0
// Compares the store with PyTorch's own TCPStore server, side by side: each in a process of its
// own, with the same raw clients, in the protocol version of this PyTorch.
//   bench_store [RUNS]      RUNS of each (default 5), each with a new server
//   bench_store scale [N]   ddprun's alone: N clients (default: as many as files may be open) and a
//                           million keys; CPU time, and how long others had to wait for it
//   bench_store tunnel [RUNS]  ddprun's alone: directly, and through an encrypted tunnel (--store
//                           tunnel), in turns
// $DDPRUN_BENCH_PYTHON (default python3) has to import torch. Prints medians and the ratio (above
// 1: ddprun is better).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "bench/harness.h"
#include "bench/store_load.h"
#include "bench/store_tunnel.h"
#include "store/server.h"

namespace ddprun::bench {
namespace {

using boost::asio::ip::tcp;
using store::Dialect;
using StoreServer = store::Server;

constexpr const char* kTorchServer =
    "import sys, torch, torch.distributed as d\n"
    "s = d.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
    "print(s.port, torch.__version__, flush=True)\n"
    "sys.stdin.read()\n";

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void accept(tcp::acceptor& acceptor, StoreServer& server) {
  acceptor.async_accept([&](boost::system::error_code error, tcp::socket socket) {
    if (!error) server.adopt(std::move(socket), "");
    accept(acceptor, server);
  });
}

/// Measures how long others of the event loop, such as heartbeats, have to wait for the store. In
/// CPU time of this thread, so that other load on the host does not count.
class StallMeter {
 public:
  explicit StallMeter(boost::asio::io_context& io) : timer_(io) { wait(); }

  /// The longest wait since the last call, in ms.
  double take() {
    measure();
    return std::exchange(longest_, 0);
  }

 private:
  void wait() {
    timer_.expires_after(std::chrono::milliseconds(1));
    timer_.async_wait([this](boost::system::error_code) {
      measure();
      wait();
    });
  }

  void measure() {
    const double now = cpu_ms();
    longest_ = std::max(longest_, now - last_);
    last_ = now;
  }

  static double cpu_ms() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  }

  boost::asio::steady_timer timer_;
  double last_ = cpu_ms();
  double longest_ = 0;
};

/// Reads commands from stdin: 'm' begins to measure waits, 's' prints the longest one since the
/// last 's', 'r' empties the store.
class Commands {
 public:
  Commands(boost::asio::io_context& io, StoreServer& server)
      : io_(io), server_(server), stdin_(io, dup(0)) {
    wait();
  }

 private:
  void wait() {
    stdin_.async_read_some(boost::asio::buffer(&command_, 1),
                           [this](boost::system::error_code closed, std::size_t) {
                             if (closed) return;
                             obey();
                             wait();
                           });
  }

  void obey() {
    if (command_ == 'm') meter_.emplace(io_);
    if (command_ == 'r') server_.reset();
    if (command_ != 's') return;
    std::printf("%f\n", meter_->take());
    std::fflush(stdout);
  }

  boost::asio::io_context& io_;
  StoreServer& server_;
  boost::asio::posix::stream_descriptor stdin_;
  std::optional<StallMeter> meter_;
  char command_ = 0;
};

/// Prints its port and serves until it is killed.
int serve() {
  boost::asio::io_context io(1);
  StoreServer server(io.get_executor());
  tcp::acceptor acceptor(io, {boost::asio::ip::address_v6::loopback(), 0});
  accept(acceptor, server);
  std::printf("%d ddprun\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  const Commands commands(io, server);
  io.run();
  return 0;
}

/// A server in a process of its own; the destructor kills it.
class ServerProcess {
 public:
  explicit ServerProcess(const Words& command) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::exit(1);
    pid_ = fork();
    if (pid_ == 0) run(command, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    stdin_.reset(in[1]);
    stdout_.reset(out[0]);
    std::istringstream(line()) >> port_ >> version_;
  }
  ~ServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// 0: the server did not start.
  std::uint16_t port() const { return port_; }
  const std::string& version() const { return version_; }

  void command(char command) const {
    if (write(stdin_.get(), &command, 1) != 1) std::exit(1);
  }

  /// The longest wait since the last call, in ms.
  double longest_wait() const {
    command('s');
    return std::atof(line().c_str());
  }

  double resident_mib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    std::string word;
    double kib = 0;
    while (status >> word) {
      if (word == "VmRSS:") status >> kib;
    }
    return kib / 1024;
  }

  double cpu_seconds() const {
    std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
    std::string line;
    std::getline(stat, line);
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

 private:
  [[noreturn]] static void run(const Words& command, int in, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, 0);
    dup2(out, 1);
    std::vector<char*> words;
    for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }

  std::string line() const {
    std::string line;
    char character;
    while (read(stdout_.get(), &character, 1) == 1 && character != '\n') line += character;
    return line;
  }

  pid_t pid_ = -1;
  Fd stdin_;
  Fd stdout_;
  std::uint16_t port_ = 0;
  std::string version_;
};

/// One server's figures, run by run.
struct Contender {
  Words command;
  std::vector<std::vector<double>> rows;
};

struct Row {
  std::string name;
  bool more_is_better;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"set, 1 client, requests/s", true},
      {"get, 1 client, requests/s", true},
      {"add, 1 client, requests/s", true},
      {"set, 64 clients, requests/s", true},
      {"get, 64 clients, requests/s", true},
      {"add, 64 clients, requests/s", true},
      {"server CPU us per request, 64 clients", false},
      {"1000 clients connect, ms", false},
      {"1000 clients pass a barrier, ms", false},
      {"4000 clients connect, ms", false},
      {"4000 clients pass a barrier, ms", false},
      {"resident MiB, no client", false},
      {"resident MiB, 4000 clients", false},
  };
  return all;
}

void measure_requests(const ServerProcess& server, Dialect dialect, int clients, int each,
                      std::vector<double>& figures) {
  StoreLoad load(server.port(), dialect, clients);
  const double total = static_cast<double>(clients) * each;
  const double cpu = server.cpu_seconds();
  figures.push_back(total / load.set(each));
  figures.push_back(2 * total / load.get(each));  // a wait and a get are two requests
  figures.push_back(total / load.add(each));
  if (clients > 1) figures.push_back((server.cpu_seconds() - cpu) / (4 * total) * 1e6);
}

void measure(Contender& contender, Dialect dialect) {
  std::vector<double> figures;
  const ServerProcess server(contender.command);
  if (server.port() == 0) std::exit(1);
  const double empty = server.resident_mib();
  measure_requests(server, dialect, 1, 5'000, figures);
  measure_requests(server, dialect, 64, 500, figures);
  for (const int clients : {1000, 4000}) {
    const ServerProcess fresh(contender.command);
    StoreLoad load(fresh.port(), dialect, clients);
    figures.push_back(load.connect_seconds() * 1e3);
    figures.push_back(load.barrier() * 1e3);
    if (clients < 4000) continue;
    figures.push_back(empty);
    figures.push_back(fresh.resident_mib());
  }
  for (std::size_t i = 0; i < figures.size(); ++i) contender.rows[i].push_back(figures[i]);
}

void print(const Contender& ours, const std::optional<Contender>& torch) {
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const double mine = median(ours.rows[i]);
    const int decimals = mine > 1000 ? 0 : 2;
    std::printf("  %-40s %12s", rows()[i].name.c_str(), cell(mine, decimals).c_str());
    if (torch) {
      const double other = median(torch->rows[i]);
      const double ratio = rows()[i].more_is_better ? mine / other : other / mine;
      std::printf(" %12s %8s", cell(other, decimals).c_str(), cell(ratio, 2).c_str());
    }
    std::printf("\n");
  }
}

/// Whether this version has the request numbers from before 2.2.
bool is_legacy(const std::string& version) {
  return version.starts_with("1.") || version.starts_with("2.0") || version.starts_with("2.1.");
}

int compare(int runs) {
  const char* chosen = std::getenv("DDPRUN_BENCH_PYTHON");
  Contender ours{{"/proc/self/exe", "serve"}, std::vector<std::vector<double>>(rows().size())};
  std::optional<Contender> torch;
  Dialect dialect = Dialect::current;
  std::string version;
  {
    const Words command{chosen != nullptr ? chosen : "python3", "-c", kTorchServer};
    const ServerProcess probe(command);
    version = probe.version();
    if (probe.port() != 0) torch = {command, ours.rows};
  }
  if (!torch) std::printf("torch is skipped: %s cannot import it\n", chosen ? chosen : "python3");
  if (torch && is_legacy(version)) dialect = Dialect::legacy;

  for (int run = 0; run < runs; ++run) {
    measure(ours, dialect);
    if (torch) measure(*torch, dialect);
  }
  std::printf("medians of %d runs %29s", runs, "ddprun");
  if (torch) std::printf(" %12s %8s", ("torch " + version.substr(0, 6)).c_str(), "times");
  std::printf("\n");
  print(ours, torch);
  return 0;
}

/// The number of clients that one host's limit of open files allows.
int most_clients() {
  constexpr int kOthers = 64;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1'000'000)) - kOthers;
}

/// Runs one step of a large job; prints the server's CPU time and the longest wait for it.
template <class Step>
void print_step(const ServerProcess& server, const char* name, Step step) {
  server.longest_wait();
  const double cpu = server.cpu_seconds();
  step();
  const double wait = server.longest_wait();
  std::printf("  %-40s CPU %6.2f s   longest wait %6.1f ms   resident %6.1f MiB\n", name,
              server.cpu_seconds() - cpu, wait, server.resident_mib());
}

int measure_scale(int clients) {
  constexpr int kKeys = 1'000'000;
  const ServerProcess server({"/proc/self/exe", "serve"});
  server.command('m');
  std::printf("%d clients, %d keys\n", clients, kKeys);
  std::optional<StoreLoad> load;
  print_step(server, "all connect",
             [&] { load.emplace(server.port(), Dialect::current, clients); });
  print_step(server, "all pass a barrier", [&] { load->barrier(); });
  print_step(server, "the keys are set", [&] { load->fill(kKeys); });
  print_step(server, "the store is emptied, all are closed", [&] {
    server.command('r');
    load->wait_for_end();
  });
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "5";
  ddprun::bench::raise_descriptor_limit();
  if (argument == "serve") return ddprun::bench::serve();
  if (argument == "tunnel") {
    ddprun::bench::measure_tunnel(argc > 2 ? std::max(1, std::atoi(argv[2])) : 5);
    return 0;
  }
  if (argument == "scale") {
    const int clients = argc > 2 ? std::atoi(argv[2]) : ddprun::bench::most_clients();
    return ddprun::bench::measure_scale(std::max(1, clients));
  }
  return ddprun::bench::compare(std::max(1, std::atoi(argument.c_str())));
}
