// SPDX-License-Identifier: Apache-2.0
#include "bench/store_tunnel.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/secret.h"
#include "bench/harness.h"
#include "bench/store_load.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/local_store_proxy.h"
#include "rendezvous/session/server.h"

namespace ddprun::bench {
namespace {

using Figures = std::vector<double>;

std::shared_ptr<const rendezvous::Security> job_security() {
  return *rendezvous::Security::of_job(Secret("0123456789abcdef0123456789abcdef"), "job");
}

/// A forked process that serves at a port until it is killed.
class PortProcess {
 public:
  /// `serve` passes its port to its argument, and does not return.
  explicit PortProcess(const std::function<void(std::function<void(std::uint16_t)>)>& serve) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve([&](std::uint16_t port) { (void)!write(ends[1], &port, sizeof port); });
      _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &port_, sizeof port_) != sizeof port_) std::exit(1);
    close(ends[0]);
  }
  ~PortProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  PortProcess(const PortProcess&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

PortProcess start_master(bool tunnel) {
  return PortProcess([tunnel](const auto& ready) {
    boost::asio::io_context io(1);
    rendezvous::Server::Options options;
    options.run_id = "job";
    options.round.min_nodes = options.round.max_nodes = 2;
    options.security = job_security();
    options.confirm_clients = true;
    options.tunnels_only = tunnel;
    const auto server = rendezvous::Server::listen(
        io.get_executor(), {{boost::asio::ip::address_v4::loopback(), 0}}, std::move(options));
    ready((*server)->address().port());
    io.run();
  });
}

PortProcess start_agent(std::uint16_t master) {
  return PortProcess([master](const auto& ready) {
    boost::asio::io_context io(1);
    rendezvous::LocalStoreProxy proxy(
        io.get_executor(),
        {[] { return job_security(); }, std::nullopt,
         [master] { return rendezvous::Endpoint{"127.0.0.1", master}; }, [] { return nullptr; }});
    if (!proxy.open()) return;
    ready(proxy.address().port);
    io.run();
  });
}

Figures measure_workers(std::uint16_t port, int workers) {
  const int each = 16'000 / workers;
  StoreLoad load(port, store::Dialect::current, workers, true);
  const double total = static_cast<double>(workers) * each;
  const double connected = load.connect_seconds() * 1e3;
  return {connected, total / load.set(each), 2 * total / load.get(each), total / load.add(each),
          load.barrier() * 1e3};
}

Figures measure_way(bool tunnel, int workers) {
  const PortProcess master = start_master(tunnel);
  if (!tunnel) return measure_workers(master.port(), workers);
  const PortProcess agent = start_agent(master.port());
  return measure_workers(agent.port(), workers);
}

double median_of(const std::vector<Figures>& runs, std::size_t figure) {
  std::vector<double> all;
  for (const Figures& run : runs) all.push_back(run[figure]);
  return median(all);
}

}  // namespace

void measure_tunnel(int runs) {
  constexpr const char* kNames[] = {"connect, ms", "set, requests/s", "get, requests/s",
                                    "add, requests/s", "pass a barrier, ms"};
  for (const int workers : {1, 8, 64}) {
    std::vector<Figures> direct, tunnel;
    for (int run = 0; run < runs; ++run) {
      direct.push_back(measure_way(false, workers));
      tunnel.push_back(measure_way(true, workers));
    }
    std::printf("%2d workers, medians of %d runs        direct     tunnel   tunnel/direct\n",
                workers, runs);
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      const double one = median_of(direct, i), other = median_of(tunnel, i);
      std::printf("  %-30s %10.2f %10.2f %10.2f\n", kNames[i], one, other, other / one);
    }
  }
}

}  // namespace ddprun::bench
