// SPDX-License-Identifier: Apache-2.0
// The ranks of a test are real processes. A lambda in the test is the code of a rank: this program
// is started again for each rank and calls it. The main() for that is in ranks.cc.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "store/server.h"
#include "tests/collectives/failed.h"
#include "tests/collectives/in_rank.h"

namespace ddprun::tests {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

/// A lambda without captures: another process of this program can make it.
template <class F>
concept RankBody = std::is_class_v<F> && std::is_empty_v<F> && std::is_default_constructible_v<F>;

namespace internal {

using BodyCall = int (*)(const Words& arguments);

/// The command that runs this program again, makes the call and exits with its result.
Words command_for(BodyCall call, const Words& arguments);

template <class T>
using Passed = std::conditional_t<std::is_convertible_v<T, std::string>, std::string, T>;

template <class T>
std::string to_text(const T& value) {
  if constexpr (std::is_convertible_v<T, std::string>) {
    return value;
  } else {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    return std::to_string(static_cast<long long>(value));
  }
}

template <class T>
T from_text(const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else {
    return static_cast<T>(std::stoll(text));
  }
}

template <class F, class... Args>
int call_body(const Words& arguments) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return exit_code_of([&] {
      if constexpr (std::is_invocable_v<F, ddp::ProcessGroup&, Args...>) {
        ddp::ProcessGroup group = join();
        F{}(group, from_text<Args>(arguments[I])...);
      } else {
        return F{}(from_text<Args>(arguments[I])...);
      }
    });
  }(std::index_sequence_for<Args...>{});
}

}  // namespace internal

/// The command of a rank that calls body(group, arguments...) in the group of all ranks or, if body
/// takes no group, body(arguments...). Arguments are text, numbers or enumerators.
template <RankBody F, class... Args>
Words rank_command(F /*body*/, const Args&... arguments) {
  return internal::command_for(&internal::call_body<F, internal::Passed<Args>...>,
                               {internal::to_text(arguments)...});
}

/// ddprun's store on a free port of `address`, served by a thread of this process.
class LiveStore {
 public:
  explicit LiveStore(const std::string& address = "127.0.0.1");
  ~LiveStore();
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  /// Reports a failure to the ranks, as ddprun does.
  void ring(const std::string& sentence);

 private:
  void accept();

  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  store::Server server_;
  std::thread thread_;
};

/// How a rank ended, or a job whose launcher shows the output of all ranks together.
struct Ended {
  int code = 0;        ///< exit code, or 128 + signal
  std::string output;  ///< stdout and stderr
};

/// One rank as a real process; the destructor kills it if it still runs.
class Rank {
 public:
  Rank(const Words& command, const Variables& variables);
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

/// The environment that a launcher gives rank `rank` of `size` with the store at `port`.
Variables place(int rank, int size, std::uint16_t port);

/// Limits the group's calls to 1500 ms, or the time to join it.
inline const Variables kImpatient = {{"DDP_TEST_TIMEOUT_MS", "1500"}};
inline const Variables kImpatientToJoin = {{"DDP_TEST_JOIN_MS", "1500"}};

/// Runs `command` as all ranks of a group and waits for them. If the tests run over MPI, the only
/// element is the job as mpirun ends it.
std::vector<Ended> run_ranks(int size, const Words& command, const Variables& more = {});

template <RankBody F, class... Args>
std::vector<Ended> run_ranks(int size, F body, const Args&... arguments) {
  return run_ranks(size, rank_command(body, arguments...));
}

/// run_ranks() that waits for all ranks but `idle`, and then kills that one.
std::vector<Ended> run_ranks_but(int idle, int size, const Words& command,
                                 const Variables& more = {});

/// run_ranks() that checks that every rank's exit code is 0.
void check_ranks(int size, const Words& command, const Variables& more = {});

template <RankBody F, class... Args>
void check_ranks(int size, F body, const Args&... arguments) {
  check_ranks(size, rank_command(body, arguments...));
}

/// Waits for the ranks, and checks that their exit codes are 0.
void check_success(std::vector<Rank>& ranks);

/// Checks that each failed with an error of this kind and printed all of the texts.
void check_failure(const std::vector<Ended>& ended, ddp::ErrorKind kind, const Words& texts);

/// Whether run_ranks() starts the ranks with mpirun: DDP_TEST_BACKEND=mpi.
bool is_over_mpi();

/// The environment of the ranks of a job over MPI. They only see GPUs of the fake driver.
Variables over_mpi();

/// Runs `command` as a job of `size` ranks over MPI, which find each other through MPI alone.
/// Returns how mpirun ended. Skips the test if there is no mpirun.
Ended under_mpirun(int size, const Words& command, const Variables& more = {});

}  // namespace ddprun::tests
