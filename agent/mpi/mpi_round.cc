// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_round.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "agent/mpi/mpi_line.h"
#include "agent/worker/worker_env.h"
#include "base/log.h"
#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

using boost::system::error_code;

/// A rank that has called MPI_Abort usually ends within milliseconds.
constexpr std::chrono::milliseconds kTimeToAbort{500};
constexpr std::size_t kMostNews = 1 << 16;

Result<std::pair<Fd, Fd>> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return os_error("cannot make a socket for MPI", errno);
  }
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

}  // namespace

MpiRound::MpiRound(const boost::asio::any_io_executor& executor, const JobSpec& job,
                   const rendezvous::Layout& layout, Hooks hooks)
    : job_(job),
      layout_(layout),
      hooks_(std::move(hooks)),
      control_(executor),
      overdue_(executor),
      ranks_(static_cast<size_t>(layout.local_size)) {}

Result<> MpiRound::make_sockets() {
  for (int i = 0; i < layout_.local_size; ++i) {
    Result<std::pair<Fd, Fd>> pair = socket_pair();
    if (!pair) return pair.error();
    worker_ends_.push_back(std::move(pair->first));
    server_ends_.push_back(std::move(pair->second));
  }
  return {};
}

/// PMI-1 needs only the sockets.
void MpiRound::start(const rendezvous::Endpoint& store, std::function<void(Result<>)> ready) {
  ready_ = std::move(ready);
  const Result<> started = start_server(store);
  if (!started || !has_pmix(job_.mpi)) be_ready(started);
}

void MpiRound::be_ready(Result<> result) {
  if (const auto ready = std::exchange(ready_, nullptr)) ready(std::move(result));
}

Result<> MpiRound::start_server(const rendezvous::Endpoint& store) {
  if (Result<> made = make_sockets(); !made) return made;
  Result<std::pair<Fd, Fd>> control = socket_pair();
  if (!control) return control.error();
  const Fd nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
  MpiOrder order{.mpi = job_.mpi,
                 .survives = job_.mpi_ft,
                 .program = job_.program,
                 .layout = layout_,
                 .store = store,
                 .sockets = {}};
  for (const Fd& end : server_ends_) order.sockets.push_back(end.get());
  launcher::Command command;
  command.program = "/proc/self/exe";  // also if the file was replaced meanwhile
  command.arguments = arguments_of(order);
  command.arguments.insert(command.arguments.begin(), launcher::kMpiServer);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_of_mpi_job(*variable)) command.environment.emplace_back(*variable);
  }
  command.stdin_fd = command.stdout_fd = control->second.get();
  command.stderr_fd = nothing.get();
  command.inherited = std::move(order.sockets);
  launcher::Spawned spawned = launcher::spawn({std::move(command)});
  batch_ = std::move(spawned.batch);
  if (spawned.failure) return std::move(*spawned.failure).in("no process for MPI");
  server_ends_.clear();
  control_.assign(control->first.release());
  read();
  return {};
}

void MpiRound::connect(launcher::Command& command, int local_rank) const {
  const auto add = [&command](const char* name, const std::string& value) {
    command.environment.push_back(std::string(name) + "=" + value);
  };
  if (has_pmix(job_.mpi)) {
    command.environment.insert(command.environment.end(), variables_.begin(), variables_.end());
    add("PMIX_RANK", std::to_string(layout_.first_rank + local_rank));
  }
  if (!has_pmi1(job_.mpi)) return;
  const int end = worker_ends_[static_cast<size_t>(local_rank)].get();
  command.inherited.push_back(end);
  add("PMI_FD", std::to_string(end));
}

void MpiRound::read() {
  async_read_until(
      control_, boost::asio::dynamic_buffer(*lines_, kMostNews), '\n',
      [this, lines = lines_, alive = std::weak_ptr(alive_)](error_code failure, size_t size) {
        if (alive.expired() || failure == boost::asio::error::operation_aborted) return;
        if (failure) return on_server_ended();
        const std::string line = lines->substr(0, size - 1);
        lines->erase(0, size);
        read();
        on_line(line);
      });
}

void MpiRound::on_line(const std::string& line) {
  const std::optional<MpiNews> news = parse_mpi_news(line, layout_.local_size);
  if (!news) return hooks_.failed("ddprun's process for MPI sent a line that means nothing");
  MpiRank& rank = ranks_[static_cast<size_t>(news->local_rank)];
  switch (news->kind) {
    case MpiNews::Kind::called_init:
      rank.called_init = true;
      return;
    case MpiNews::Kind::finalized:
      rank.finalized = true;
      return;
    case MpiNews::Kind::aborted:
      return on_aborted(news->local_rank, news->code);
    case MpiNews::Kind::variable:
      variables_.push_back(news->text);
      return;
    case MpiNews::Kind::ready:
      return be_ready({});
    case MpiNews::Kind::known:
      return on_known(*news);
    case MpiNews::Kind::warning:
      return log::warning(news->text);
    case MpiNews::Kind::failed:
      return is_starting() ? be_ready(Error{Errc::system, news->text}) : hooks_.failed(news->text);
  }
}

void MpiRound::on_aborted(int local_rank, int code) {
  ranks_[static_cast<size_t>(local_rank)].abort_code = code;
  overdue_.expires_after(kTimeToAbort);
  overdue_.async_wait([this, local_rank, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) hooks_.overdue(local_rank);
  });
}

void MpiRound::ended(int local_rank, std::function<void()> known) {
  ask(MpiQuestion::ended, local_rank, [known = std::move(known)](int) { known(); });
}

void MpiRound::lost(int local_rank, std::function<void(bool others)> known) {
  ask(MpiQuestion::lost, local_rank, [known = std::move(known)](int code) { known(code != 0); });
}

void MpiRound::ask(MpiQuestion question, int local_rank, std::function<void(int code)> known) {
  if (!control_.is_open()) return known(0);
  waiting_.push_back({local_rank, std::move(known)});
  error_code gone;  // then give_up() follows
  boost::asio::write(control_, boost::asio::buffer(line_of(question, local_rank)), gone);
}

void MpiRound::on_known(const MpiNews& news) {
  const auto found = std::ranges::find(waiting_, news.local_rank, &Waiting::local_rank);
  if (found == waiting_.end()) return;
  const auto known = std::move(found->known);
  waiting_.erase(found);
  const std::weak_ptr alive = alive_;
  known(news.code);
  if (!alive.expired() && is_finishing_) finish();
}

void MpiRound::give_up() {
  for (const Waiting& each : std::exchange(waiting_, {})) each.known(0);
}

void MpiRound::finish() {
  is_finishing_ = true;
  if (waiting_.empty()) control_.close();
}

void MpiRound::on_server_ended() {
  control_.close();
  const auto failure = batch_->exec_failure(0);
  const std::weak_ptr alive = alive_;
  give_up();
  if (alive.expired() || is_finishing_) return;
  std::string cause = "ddprun's process for MPI on this node ended" +
                      (failure ? ": " + failure->message : std::string(" or was killed"));
  is_starting() ? be_ready(Error{Errc::system, std::move(cause)}) : hooks_.failed(cause);
}

void MpiRound::describe(int local_rank, rendezvous::WorkerPlace& place) const {
  const auto called = std::ranges::count_if(ranks_, &MpiRank::called_init);
  if (called == 0 || called == std::ssize(ranks_)) return;
  const bool waits = of(local_rank).called_init;
  using Kind = rendezvous::WorkerPlace::Kind;
  place.kind = waits ? Kind::collective : Kind::outside;
  place.what = waits ? "in MPI_Init" : "has not called MPI_Init: " + place.what;
}

}  // namespace ddprun::agent
