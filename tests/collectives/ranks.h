// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "store/server.h"
#include "tests/collectives/failed.h"

namespace ddprun::tests {

/// ddprun's store on a free port of `address`, served by a thread of this process.
class LiveStore {
 public:
  explicit LiveStore(const std::string& address = "127.0.0.1");
  ~LiveStore();
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  /// Tells the ranks bad news, as ddprun does.
  void ring(const std::string& sentence);

 private:
  void accept();

  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  store::Server server_;
  std::thread thread_;
};

/// How a rank ended.
struct Ended {
  int code = 0;        ///< exit code, or 128 + signal
  std::string output;  ///< stdout and stderr
};

using Variables = std::map<std::string, std::string>;

/// One rank as a real process; the destructor kills it if it still runs.
class Rank {
 public:
  Rank(const std::vector<std::string>& command, const Variables& variables);
  Rank(Rank&&) = default;
  Rank& operator=(Rank&&) = delete;
  ~Rank();

  /// Reads its output to the end and reaps it.
  Ended wait();
  void kill() const;

 private:
  struct Pid {
    pid_t value = 0;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, 0)) {}
  };
  Pid pid_;
  Fd output_;
};

/// What a launcher tells rank `rank` of `size` about the store at `port`.
Variables place(int rank, int size, std::uint16_t port);

/// Runs `command` as all ranks of a group and waits for them.
std::vector<Ended> run_ranks(int size, const std::vector<std::string>& command,
                             const Variables& more = {});

}  // namespace ddprun::tests
