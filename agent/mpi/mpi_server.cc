// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/prctl.h>
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
#include "agent/mpi/mpi_line.h"
#include "agent/mpi/pmi1_server.h"
#include "agent/mpi/pmix_server.h"
#include "base/async_jobs.h"
#include "base/fd.h"
#include "base/secret.h"
#include "base/text.h"
#include "launcher/guardian/guardian.h"
#include "launcher/output/log_dir.h"
#include "launcher/process/process_use.h"
#include "launcher/process/spawn.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::agent {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

/// From one look for ranks that others wait for to the next.
constexpr std::chrono::seconds kLook{5};
/// The same, for nodes that have no ranks left and need not be waited for.
constexpr std::chrono::seconds kLookForLost{1};
constexpr std::size_t kMostControl = 1 << 16;
constexpr const char* kMemory = "/dev/shm";

/// A folder for files of libpmix, which only this user may enter.
class Folder {
 public:
  Folder() {
    for (const char* place : {kMemory, "/tmp"}) {
      path_ = std::string(place) + "/" + launcher::kMpiFolder + "XXXXXX";
      if (mkdtemp(path_.data()) == nullptr) path_.clear();
      if (!path_.empty()) lock_ = launcher::lock_directory(path_);
      if (lock_) break;  // else another one has perhaps just removed it
    }
  }
  ~Folder() {
    if (!path_.empty()) launcher::remove_directory(path_);
  }
  const std::string& path() const { return path_; }
  bool is_in_memory() const { return path_.starts_with(kMemory); }

 private:
  std::string path_;
  Fd lock_;
};

/// The result of an attempt to end an exchange.
struct Attempt {
  Result<std::optional<std::string>> data = std::optional<std::string>();
  std::vector<int> missing{};  ///< nodes
  std::string uncalled{};      ///< ranks of these that have not called MPI_Init
};

/// Publishes `own` first, if there is any. Does not wait for nodes whose ranks are all `lost`.
/// Blocks: it runs on a thread of its own.
Attempt attempt_exchange(MpiExchange& exchange, const std::optional<std::string>& own,
                         std::chrono::seconds limit, const std::set<int>& lost) {
  if (own) {
    if (const Result<> begun = exchange.begin(*own); !begun) return {.data = begun.error()};
  }
  Attempt attempt{.data = exchange.end(limit)};
  if (!attempt.data || *attempt.data) return attempt;
  Result<std::vector<int>> missing = exchange.missing();
  if (!missing) return {.data = missing.error()};
  std::erase_if(*missing, [&lost](int node) { return lost.contains(node); });
  if (missing->empty()) {
    const Result<> finished = exchange.finish();
    return {.data = finished ? exchange.end(limit) : finished.error()};
  }
  Result<std::string> uncalled = exchange.uncalled_of(*missing);
  if (!uncalled) return {.data = uncalled.error()};
  attempt.missing = std::move(*missing);
  attempt.uncalled = std::move(*uncalled);
  return attempt;
}

class NodeMpi {
 public:
  explicit NodeMpi(const MpiOrder& order)
      : order_(order),
        layout_(order.layout),
        control_(io_, STDIN_FILENO),
        jobs_(io_.get_executor()),
        look_(io_),
        called_(static_cast<size_t>(order.layout.local_size)),
        uncalled_of_nodes_(std::make_shared<MpiExchange>(exchange_among("uncalled", {}))),
        losses_(std::make_shared<MpiExchange>(exchange_among("lost", {}))) {
    for (const int socket : order.sockets) sockets_.emplace_back(io_, socket);
  }

  void run() {
    read_control();
    all_nodes_.resize(static_cast<size_t>(layout_.node_count));
    std::iota(all_nodes_.begin(), all_nodes_.end(), 0);
    exchange("nodes" + std::to_string(static_cast<int>(order_.mpi)), all_nodes_,
             row_of(layout_, rendezvous::host_name(), random_name()),
             [this](const std::string& rows, std::int64_t) { begin(rows); });
    look_for_uncalled();
    io_.run();
    for (const std::string& file : left_files_) unlink(file.c_str());
  }

 private:
  using Exchanged = std::function<void(const std::string& all, std::int64_t number)>;

  /// With nodes of the round: each has one of the same name.
  struct Exchange {
    std::shared_ptr<MpiExchange> with;
    std::optional<std::string> own;  ///< to be given
    Exchanged exchanged = {};
    bool of_group = false;  ///< a program may make many groups, each once
  };

  /// The ranks' requests wait in their sockets until all nodes are known.
  void begin(const std::string& rows) {
    const Result<MpiNodes> nodes = parse_rows(rows, layout_);
    if (!nodes) return fail(nodes.error().message);
    const Result<> pmix = has_pmix(order_.mpi) ? begin_pmix(*nodes) : Result<>();
    if (!pmix && order_.mpi == Mpi::pmix) return fail(pmix.error().message);
    if (!pmix) warn(pmix.error().message + "; the others are served (--mpi both)");
    for (const std::string& file : mpich_files(*nodes, layout_.node_rank)) {
      left_files_.push_back(std::string(kMemory) + '/' + file);
    }
    local_sizes_ = nodes->local_sizes;
    pmi1_.emplace(layout_, *nodes);
    for (size_t i = 0; i < sockets_.size(); ++i) watch(i);
    tell({.kind = MpiNews::Kind::ready});
  }

  Result<> begin_pmix(const MpiNodes& nodes) {
    auto server = PmixServer::start(
        io_.get_executor(), layout_, nodes, folder_.emplace().path(), order_.program,
        {.news = [this](const MpiNews& news) { tell(news); },
         .exchange =
             [this](const std::string& name, const std::vector<int>& among, std::string own,
                    PmixServer::Exchanged exchanged) {
               exchange(name, among, std::move(own), std::move(exchanged));
             }});
    if (!server) return server.error();
    pmix_ = *server;
    if (order_.survives && layout_.node_count > 1) watch_losses();
    for (const std::string& variable : (*server)->variables()) {
      tell({.kind = MpiNews::Kind::variable, .text = variable});
    }
    // Open MPI 5 reads the first, 4 the second: nodes on one host would take each other's files.
    for (const char* name :
         {"OMPI_MCA_btl_sm_backing_directory", "OMPI_MCA_btl_vader_backing_directory"}) {
      if (!folder_->is_in_memory() || std::getenv(name) != nullptr) continue;
      tell({.kind = MpiNews::Kind::variable, .text = name + ("=" + folder_->path())});
    }
    return {};
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
      exchange("pmi1", all_nodes_, std::move(*puts), [this](const std::string& all, std::int64_t) {
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

  MpiExchange exchange_among(const std::string& name, const std::vector<int>& nodes) const {
    return {order_.store, layout_.node_rank, name, nodes};
  }

  /// Calls `exchanged` with what all these nodes have given, and a number that no other exchange of
  /// ranks of these nodes has, in a later turn if there are several.
  void exchange(const std::string& name, const std::vector<int>& nodes, std::string own,
                Exchanged exchanged) {
    if (nodes.size() == 1) return exchanged(own, 2 * ++own_exchanges_);
    Exchange& one = exchanges_[name];
    if (!one.with) one.with = std::make_shared<MpiExchange>(exchange_among(name, nodes));
    one.of_group = name.starts_with(PmixServer::kGroups);
    one.own = std::move(own);
    one.exchanged = std::move(exchanged);
    attempt(one);
  }

  void attempt(Exchange& one) {
    const auto limit = order_.survives ? kLookForLost : 2 * kLook;
    jobs_.run([with = one.with, own = std::exchange(one.own, std::nullopt), limit,
               lost = lost_nodes_] { return attempt_exchange(*with, own, limit, lost); },
              [this, &one](const Attempt& attempt) { on_attempt(one, attempt); });
  }

  void on_attempt(Exchange& one, const Attempt& attempted) {
    if (!attempted.data) {
      return fail("the nodes' MPI ranks lost each other: " + attempted.data.error().message);
    }
    if (*attempted.data) {
      if (one.of_group) one.with->rest();
      return std::exchange(one.exchanged, nullptr)(**attempted.data, 2 * one.with->number() + 1);
    }
    if (!pmi1_) {
      warn("MPI waits for " + std::string(attempted.missing.size() == 1 ? "node " : "nodes ") +
           compress_ranks(attempted.missing) + ": do all nodes have the same --mpi?");
    } else if (!attempted.uncalled.empty()) {
      warn_of_uncalled(attempted.uncalled);
    }
    attempt(one);
  }

  /// Ranks of this node that others wait for.
  void look_for_uncalled() {
    look_.expires_after(kLook);
    look_.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      on_look();
      look_for_uncalled();
    });
  }

  /// Other nodes may wait for them, too.
  void on_look() {
    const std::string uncalled = compress_ranks(ranks_that(false));
    if (std::exchange(uncalled_, uncalled) == uncalled) {
      if (!uncalled.empty() && !ranks_that(true).empty()) warn_of_uncalled(uncalled);
    } else if (layout_.node_count > 1 && !std::exchange(is_publishing_, true)) {
      jobs_.run([with = uncalled_of_nodes_, uncalled] { return with->publish_uncalled(uncalled); },
                [this](const Result<>& /*if the store is lost, an exchange says so*/) {
                  is_publishing_ = false;
                });
    }
  }

  void warn_of_uncalled(const std::string& uncalled) {
    const std::vector<int> waiting = ranks_that(true);
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

  /// The socket of an ended rank has all that the rank sent before its end.
  void on_control(std::string_view line) {
    const auto question = parse_mpi_question(line, layout_.local_size);
    if (!question) return;
    if (question->first == MpiQuestion::lost) return on_lost(question->second);
    drain(static_cast<size_t>(question->second));
    tell({MpiNews::Kind::known, question->second});
  }

  /// Ranks of other nodes learn it from their MpiServer, and those of this one, if there are
  /// several nodes, when it has come back.
  void on_lost(int local_rank) {
    const int rank = layout_.first_rank + local_rank;
    if (layout_.node_count == 1) {
      if (pmix_ != nullptr) pmix_->notify_lost(rank);
      return answer_lost(local_rank, ++lost_);
    }
    // Several may be on their way at once, each by a connection of its own.
    const auto with = std::make_shared<MpiExchange>(exchange_among("lost", {}));
    jobs_.run([with, rank] { return with->publish_lost(rank); },
              [this, local_rank](const Result<int>& lost) {
                answer_lost(local_rank, lost ? *lost : layout_.world_size);
              });
  }

  void answer_lost(int local_rank, int lost) {
    tell({.kind = MpiNews::Kind::known,
          .local_rank = local_rank,
          .code = lost < layout_.world_size ? 1 : 0});
  }

  void watch_losses() {
    jobs_.run([with = losses_] { return with->next_lost(2 * kLook); },
              [this](const Result<std::optional<int>>& rank) {
                if (!rank)
                  return fail("the nodes' MPI ranks lost each other: " + rank.error().message);
                if (*rank) note_lost(**rank);
                watch_losses();
              });
  }

  void note_lost(int rank) {
    pmix_->notify_lost(rank);
    lost_ranks_.insert(rank);
    int first = 0;
    for (size_t node = 0; node < local_sizes_.size(); first += local_sizes_[node++]) {
      int left = local_sizes_[node];
      for (int i = 0; i < local_sizes_[node]; ++i) left -= lost_ranks_.contains(first + i) ? 1 : 0;
      if (left == 0) lost_nodes_.insert(static_cast<int>(node));
    }
  }

  void warn(const std::string& text) { tell({.text = text}); }

  void fail(const std::string& text) { tell({.kind = MpiNews::Kind::failed, .text = text}); }

  /// The agent reads, or has closed the socket, which ends this process.
  void tell(const MpiNews& news) {
    if (news.kind == MpiNews::Kind::warning && !warnings_.insert(news.text).second) return;
    if (news.kind == MpiNews::Kind::called_init)
      called_[static_cast<size_t>(news.local_rank)] = true;
    error_code gone;
    boost::asio::write(control_, boost::asio::buffer(line_of(news)), gone);
  }

  /// Global ranks of this node that have called MPI_Init, or have not.
  std::vector<int> ranks_that(bool called) const {
    std::vector<int> ranks;
    for (int i = 0; i < layout_.local_size; ++i) {
      if (called_[static_cast<size_t>(i)] == called) ranks.push_back(layout_.first_rank + i);
    }
    return ranks;
  }

  const MpiOrder order_;
  const rendezvous::Layout layout_;
  std::optional<Folder> folder_;
  std::vector<std::string> left_files_;  // by ranks that are killed
  boost::asio::io_context io_{1};
  stream_descriptor control_;
  std::string lines_;  // read of it
  std::vector<stream_descriptor> sockets_;
  AsyncJobs jobs_;
  boost::asio::steady_timer look_;
  std::vector<int> all_nodes_;
  std::optional<Pmi1Server> pmi1_;  // nullopt: not all nodes are known
  std::map<std::string, Exchange> exchanges_;
  std::int64_t own_exchanges_ = 0;  // of this node alone
  std::vector<bool> called_;        // MPI_Init, by local rank
  std::string uncalled_;            // at the last look
  std::set<std::string> warnings_;  // each is given once
  std::shared_ptr<MpiExchange> uncalled_of_nodes_;
  bool is_publishing_ = false;
  PmixServer* pmix_ = nullptr;             // nullptr: PMIx is not served
  std::shared_ptr<MpiExchange> losses_;    // --mpi_ft, on several nodes
  std::set<int> lost_ranks_, lost_nodes_;  // likewise
  std::vector<int> local_sizes_;           // of each node
  int lost_ = 0;                           // on one node
};

}  // namespace

int run_mpi_server(std::span<const std::string> arguments) {
  prctl(PR_SET_NAME, launcher::kMpiServer);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) std::signal(signal, SIG_IGN);
  const std::optional<MpiOrder> order = order_of(arguments);
  if (!order) return 2;
  launcher::raise_open_files_limit();  // each rank has a socket
  NodeMpi(*order).run();
  _exit(0);  // threads may wait for other nodes, and are libpmix's
}

}  // namespace ddprun::agent
