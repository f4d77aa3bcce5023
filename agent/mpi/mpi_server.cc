// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_server.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "agent/mpi/mpi_exchange.h"
#include "agent/mpi/mpi_order.h"
#include "agent/mpi/pmi1_server.h"
#include "base/async_jobs.h"
#include "base/text.h"
#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

/// From one look for ranks that others wait for to the next.
constexpr std::chrono::seconds kLook{5};
constexpr std::size_t kMostControl = 1 << 16;

std::string random_token() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<std::uint64_t>(getpid());
  return std::to_string(bits);
}

/// The result of an attempt to end an exchange.
struct Attempt {
  Result<std::optional<std::string>> data = std::optional<std::string>();
  std::vector<int> missing{};  ///< nodes
  std::string uncalled{};      ///< ranks of these that have not called MPI_Init
};

/// Publishes `own` first, if there is any. Blocks: it runs on a thread of its own.
Attempt attempt_exchange(MpiExchange& exchange, const std::optional<std::string>& own) {
  if (own) {
    if (const Result<> begun = exchange.begin(*own); !begun) return {.data = begun.error()};
  }
  Attempt attempt{.data = exchange.end(2 * kLook)};
  if (!attempt.data || *attempt.data) return attempt;
  Result<std::vector<int>> missing = exchange.missing();
  if (!missing) return {.data = missing.error()};
  Result<std::string> uncalled = exchange.uncalled_of(*missing);
  if (!uncalled) return {.data = uncalled.error()};
  attempt.missing = std::move(*missing);
  attempt.uncalled = std::move(*uncalled);
  return attempt;
}

class Server {
 public:
  explicit Server(const MpiOrder& order)
      : layout_(order.layout),
        control_(io_, STDIN_FILENO),
        jobs_(io_.get_executor()),
        look_(io_),
        exchange_(std::make_shared<MpiExchange>(order.layout, order.store)) {
    for (const int socket : order.sockets) sockets_.emplace_back(io_, socket);
  }

  int run() {
    read_control();
    exchange(row_of(layout_, random_token()), [this](const std::string& rows) { begin(rows); });
    look_for_uncalled();
    io_.run();
    return 0;
  }

 private:
  using Exchanged = std::function<void(const std::string&)>;

  /// The ranks' requests wait in their sockets until all nodes are known.
  void begin(const std::string& rows) {
    const Result<MpiNodes> nodes = parse_rows(rows, layout_);
    if (!nodes) return fail(nodes.error().message);
    pmi1_.emplace(layout_, *nodes);
    for (size_t i = 0; i < sockets_.size(); ++i) watch(i);
  }

  void watch(size_t rank) {
    sockets_[rank].async_wait(stream_descriptor::wait_read, [this, rank](error_code cancelled) {
      if (!cancelled && drain(rank)) watch(rank);
    });
  }

  /// Takes all that the rank has sent. False: it has closed its end.
  bool drain(size_t rank) {
    std::array<char, 16'384> bytes;
    while (pmi1_ && sockets_[rank].is_open()) {
      const ssize_t size =
          recv(sockets_[rank].native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return true;
      if (size <= 0) {
        sockets_[rank].close();
        break;
      }
      pmi1_->receive(static_cast<int>(rank), {bytes.data(), static_cast<size_t>(size)});
      answer();
    }
    return false;
  }

  /// A rank that does not read its answers is not waited for: each has asked for its one.
  void answer() {
    if (auto puts = pmi1_->take_barrier()) {
      exchange(std::move(*puts), [this](const std::string& all) {
        pmi1_->end_barrier(all);
        answer();
      });
    }
    for (const Pmi1Server::Reply& reply : pmi1_->take_replies()) {
      stream_descriptor& socket = sockets_[static_cast<size_t>(reply.local_rank)];
      if (!socket.is_open()) continue;
      const ssize_t sent = send(socket.native_handle(), reply.line.data(), reply.line.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent != std::ssize(reply.line)) socket.close();
    }
    for (const MpiNews& news : pmi1_->take_news()) tell(news);
  }

  /// Calls `exchanged` with what all nodes have given, in a later turn if there are several.
  void exchange(std::string own, Exchanged exchanged) {
    if (layout_.node_count == 1) return exchanged(own);
    exchanged_ = std::move(exchanged);
    own_ = std::move(own);
    if (!is_busy_) continue_exchange();
  }

  void continue_exchange() {
    is_busy_ = true;
    jobs_.run(
        [exchange = exchange_, own = std::exchange(own_, std::nullopt)] {
          return attempt_exchange(*exchange, own);
        },
        [this](const Attempt& attempt) { on_attempt(attempt); });
  }

  void on_attempt(const Attempt& attempt) {
    is_busy_ = false;
    if (!attempt.data)
      return fail("the nodes' MPI ranks lost each other: " + attempt.data.error().message);
    if (*attempt.data) return std::exchange(exchanged_, nullptr)(**attempt.data);
    if (!pmi1_) {
      warn("MPI_Init waits for " + std::string(attempt.missing.size() == 1 ? "node " : "nodes ") +
           compress_ranks(attempt.missing) + " to serve MPI: do all nodes have the same --mpi?");
    } else if (!attempt.uncalled.empty()) {
      warn_of_uncalled(all_ranks(), attempt.uncalled);
    }
    continue_exchange();
  }

  /// Ranks of this node that others wait for.
  void look_for_uncalled() {
    look_.expires_after(kLook);
    look_.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      if (pmi1_) on_look();
      look_for_uncalled();
    });
  }

  void on_look() {
    const std::string uncalled = compress_ranks(global(pmi1_->uncalled()));
    if (std::exchange(uncalled_, uncalled) != uncalled) {
      published_ = false;
    } else if (const auto waiting = pmi1_->waiting(); !uncalled.empty() && !waiting.empty()) {
      warn_of_uncalled(global(waiting), uncalled);
    }
    if (layout_.node_count > 1 && !published_ && !is_busy_) publish(uncalled);
  }

  void publish(const std::string& uncalled) {
    is_busy_ = published_ = true;
    jobs_.run([exchange = exchange_, uncalled] { return exchange->publish_uncalled(uncalled); },
              [this](const Result<>& /*lost: the next exchange says so*/) {
                is_busy_ = false;
                if (own_) continue_exchange();
              });
  }

  void warn_of_uncalled(const std::vector<int>& waiting, const std::string& uncalled) {
    const bool is_one = uncalled.find_first_of("-, ") == uncalled.npos;
    warn(ranks_text(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " in MPI_Init: " +
         (is_one ? "rank " : "ranks ") + uncalled + (is_one ? " has" : " have") + " not called it");
  }

  void read_control() {
    async_read_until(control_, boost::asio::dynamic_buffer(lines_, kMostControl), '\n',
                     [this](error_code failure, size_t size) {
                       if (failure) return io_.stop();
                       on_control(std::string_view(lines_).substr(0, size - 1));
                       lines_.erase(0, size);
                       read_control();
                     });
  }

  /// "ended RANK": what the rank has sent before its end is in its socket.
  void on_control(std::string_view line) {
    int rank = -1;
    line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
    std::from_chars(line.data(), line.data() + line.size(), rank);
    if (rank < 0 || rank >= layout_.local_size) return;
    drain(static_cast<size_t>(rank));
    tell({MpiNews::Kind::known, rank});
  }

  void warn(const std::string& text) {
    if (std::exchange(warning_, text) != text) tell({.text = text});
  }

  void fail(const std::string& text) { tell({.kind = MpiNews::Kind::failed, .text = text}); }

  /// The agent reads, or has closed the socket, which ends this process.
  void tell(const MpiNews& news) {
    error_code gone;
    boost::asio::write(control_, boost::asio::buffer(line_of(news)), gone);
  }

  std::vector<int> global(std::vector<int> local_ranks) const {
    for (int& rank : local_ranks) rank += layout_.first_rank;
    return local_ranks;
  }

  std::vector<int> all_ranks() const {
    std::vector<int> all;
    for (int i = 0; i < layout_.local_size; ++i) all.push_back(layout_.first_rank + i);
    return all;
  }

  const rendezvous::Layout layout_;
  boost::asio::io_context io_{1};
  stream_descriptor control_;
  std::string lines_;  // read of it
  std::vector<stream_descriptor> sockets_;
  AsyncJobs jobs_;
  boost::asio::steady_timer look_;
  std::optional<Pmi1Server> pmi1_;
  std::string uncalled_;   // at the last look
  bool published_ = true;  // uncalled_, to the other nodes
  std::string warning_;    // the last one

  // One call at a time, on a thread.
  std::shared_ptr<MpiExchange> exchange_;
  bool is_busy_ = false;
  std::optional<std::string> own_;  // to be given
  Exchanged exchanged_;
};

}  // namespace

int run_mpi_server(std::span<const std::string> arguments) {
  prctl(PR_SET_NAME, launcher::kMpiServer);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) std::signal(signal, SIG_IGN);
  const std::optional<MpiOrder> order = order_of(arguments);
  if (!order) return 2;
  const int code = Server(*order).run();
  _exit(code);  // a thread may wait for another node
}

}  // namespace ddprun::agent
