// SPDX-License-Identifier: Apache-2.0
#include "agent/round_end.h"

#include <algorithm>
#include <set>
#include <utility>

#include <boost/asio/post.hpp>

#include "agent/diagnosis/python_stack.h"
#include "agent/diagnosis/whereabouts.h"
#include "agent/job/first_failure.h"
#include "agent/job/outcome.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/process/exit_status.h"

namespace ddprun::agent {
namespace {

using Seconds = std::chrono::duration<double>;

/// No worker fills a machine's memory in less time.
constexpr std::chrono::milliseconds kOomDelay{20};

/// How long a failure whose words mention a lost peer waits for that peer's end: an interpreter
/// with a GPU may take as long to end.
constexpr std::chrono::seconds kLostPeer{2};

/// The time by the clock with which the kernel dates files.
std::timespec coarse_time() {
  std::timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

}  // namespace

RoundEnd::RoundEnd(boost::asio::any_io_executor executor, std::string host_name, Hooks hooks)
    : executor_(std::move(executor)),
      host_name_(std::move(host_name)),
      hooks_(std::move(hooks)),
      traces_(executor_),
      oom_begins_(executor_) {}

void RoundEnd::clear(const rendezvous::Layout& layout) {
  layout_ = layout;
  all_ended_ = false;
  failures_.clear();
  cause_limit_.reset();
  first_failure_.clear();
  stop_signal_ = 0;
  stopped_.clear();
  succeeded_.clear();
  failed_.reset();
  exits_ = {};
}

/// Begins a little later, to leave the CPU to the starting workers.
void RoundEnd::watch(bool gpus) {
  oom_.reset();
  oom_begins_.expires_after(kOomDelay);
  oom_begins_.async_wait([this, gpus](boost::system::error_code cancelled) {
    if (cancelled) return;
    oom_.emplace();
    if (gpus) gpu_errors_.emplace();
  });
}

void RoundEnd::ended(const launcher::WorkerEnd& end, TracePlaces places, std::string cause) {
  ++under_examination_;
  std::optional<std::size_t> number;
  if (!end.stopped) {
    exits_.failed.push_back({layout_.first_rank + end.local_rank, end.status.text()});
    number = failures_.ended();
    if (!failed_) failed_ = std::chrono::steady_clock::now();
  }
  // A worker that had to print its stacks ends before the others are stopped.
  const std::timespec stopped = is_stopping() ? stop_dated_ : coarse_time();
  traces_.read(end, std::move(places), stopped,
               [this, end, number, cause = std::move(cause)](const Traces& traces) {
                 on_traces(end, number, cause, traces);
               });
}

void RoundEnd::not_started(int local_rank) {
  exits_.failed.push_back({layout_.first_rank + local_rank, "could not be started"});
}

void RoundEnd::on_traces(const launcher::WorkerEnd& end, std::optional<std::size_t> number,
                         const std::string& cause, const Traces& traces) {
  const std::string& exception = traces.exception.message;
  hooks_.examined(end, exception);
  rendezvous::Failure failure = failure_of(end, traces);
  // A worker that was stopped while it failed has waited, too.
  const bool failed = !end.stopped || !traces.calls.empty();
  if (failed && cause.empty()) note_wait(failure, traces.calls);
  if (end.stopped) {
    // A worker's words after it was stopped do not explain an earlier failure.
    stopped_.push_back({failure.rank, end.status, std::exchange(failure.stderr_tail, "")});
  }
  // If a worker's words mention a lost peer, a full disk is not the cause.
  if (!is_consequence(failure)) failure.cause = traces.cause;
  if (failure.cause.empty()) failure.cause = cause;
  if (!traces.core.empty()) log::info(ranks_text({failure.rank}) + " left a core: " + traces.core);
  if (end.stopped && exception.empty()) exits_.stopped.push_back(failure.rank);
  if (end.stopped && !exception.empty()) exits_.failed.push_back({failure.rank, exception});
  note_consequence(failure);
  if (number) settle(failures_.examined(*number, std::move(failure)));
  --under_examination_;
  hooks_.settled();
}

void RoundEnd::note_consequence(const rendezvous::Failure& failure) {
  for (rendezvous::FailedWorker& worker : exits_.failed) {
    if (worker.rank != failure.rank) continue;
    worker.consequence = is_consequence(failure);
    worker.lost_peer = says_it_lost_a_peer(failure);
  }
}

/// Notes the place of a rank that waited until it failed, if its words or calls show it.
void RoundEnd::note_wait(const rendezvous::Failure& failure,
                         const std::vector<launcher::WorkerCall>& calls) {
  if (!is_consequence(failure)) return;
  add_calls(exits_.calls, failure.rank, calls);
  const std::string& words = failure.traceback.empty() ? failure.stderr_tail : failure.traceback;
  const PythonStack stack = parse_traceback(words);
  if (stack.empty()) return;
  const StackPlace at = stack_place(stack);
  if (at.kind != StackPlace::Kind::collective && at.kind != StackPlace::Kind::backward) return;
  add_waits(exits_.places, {{{failure.rank}, rendezvous::WorkerPlace::Kind::collective, at.text}});
}

/// Reports `first`. Waits if all failures mention a lost peer, and that peer's may still come.
void RoundEnd::settle(std::optional<rendezvous::Failure> first) {
  const bool is_alone = layout_.local_size == layout_.world_size;
  if (!first && (is_stopping() || (all_ended_ && is_alone))) first = failures_.give_up();
  if (first) return tell_first(std::move(*first));
  if (failures_.waits_for_cause() && !cause_limit_) wait_for_cause();
}

void RoundEnd::wait_for_cause() {
  cause_limit_.emplace(executor_, kLostPeer);
  cause_limit_->async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    auto first = failures_.give_up();
    if (!first) return;
    tell_first(std::move(*first));
    hooks_.settled();
  });
}

void RoundEnd::tell_first(rendezvous::Failure failure) {
  const int signal = exit_status(failure).signal();
  std::string cause = oom_ ? oom_->cause(failure.pid, signal) : "";
  if (cause.empty() && gpu_errors_) cause = gpu_errors_->cause(failure.pid);
  if (!cause.empty()) failure.cause = std::move(cause);
  note_consequence(failure);
  first_failure_ = ranks_text({failure.rank}) + " failed (" + exit_status(failure).text() + "); ";
  hooks_.first_failure(std::move(failure));
}

void RoundEnd::stop(int signal) {
  if (!is_stopping()) {
    stop_signal_ = signal;
    exits_.signal = launcher::signal_name(signal);
    stop_began_ = std::chrono::steady_clock::now();
    stop_dated_ = coarse_time();
  }
  if (failures_.give_up() && all_ended_) {
    boost::asio::post(executor_, [this] { hooks_.settled(); });
  }
}

void RoundEnd::set_places(std::vector<rendezvous::WorkerPlace> places,
                          std::vector<rendezvous::CallPlace> calls) {
  add_waits(places, exits_.places);
  exits_.places = std::move(places);
  std::set<int> left;  // by ranks that have failed since: it holds
  for (const rendezvous::CallPlace& call : exits_.calls) {
    left.insert(call.ranks.begin(), call.ranks.end());
  }
  for (rendezvous::CallPlace& call : calls) {
    std::erase_if(call.ranks, [&left](int rank) { return left.contains(rank); });
    if (!call.ranks.empty()) exits_.calls.push_back(std::move(call));
  }
}

std::vector<rendezvous::WorkerPlace> RoundEnd::ended_places() const {
  const auto until = failed_         ? *failed_
                     : is_stopping() ? stop_began_
                                     : std::chrono::steady_clock::now();
  std::vector<rendezvous::WorkerPlace> places;
  for (const auto& [rank, when] : succeeded_) {
    const double before = std::max(Seconds(until - when).count(), 0.0);
    places.push_back(
        {{rank}, rendezvous::WorkerPlace::Kind::ended, "ended with exit code 0", before});
  }
  return grouped(places);
}

rendezvous::WorkerExits RoundEnd::exits() const {
  rendezvous::WorkerExits exits = exits_;
  for (auto& place : ended_places()) exits.places.push_back(std::move(place));
  return exits;
}

void RoundEnd::all_ended(const std::vector<int>& killed) {
  all_ended_ = true;
  const Seconds stopping = std::chrono::steady_clock::now() - stop_began_;
  if (is_stopping()) exits_.seconds = stopping.count();
  for (const int local_rank : killed) exits_.killed.push_back(layout_.first_rank + local_rank);
  settle(std::nullopt);
}

std::string RoundEnd::stop_line() const {
  return agent::stop_line(stopped_, stop_signal_);
}

bool RoundEnd::is_known() const {
  return all_ended_ && under_examination_ == 0 && !failures_.waits_for_cause();
}

rendezvous::Failure RoundEnd::failure_of(const launcher::WorkerEnd& end,
                                         const Traces& traces) const {
  rendezvous::Failure failure;
  failure.rank = layout_.first_rank + end.local_rank;
  failure.wait_status = end.status.wait_status();
  failure.pid = end.pid;
  failure.seconds = Seconds(end.ran).count();
  failure.host = host_name_;
  failure.stderr_tail = traces.stderr_end;
  failure.exception = traces.exception.message;
  failure.traceback = traces.exception.traceback;
  failure.log_folder = traces.log_folder;
  return failure;
}

}  // namespace ddprun::agent
