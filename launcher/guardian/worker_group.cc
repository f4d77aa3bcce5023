// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/worker_group.h"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <utility>

#include "launcher/guardian/guardian.h"

namespace ddprun::launcher {
namespace {

/// How long a worker may still run after the processes that got the signal in its place have ended.
constexpr std::chrono::seconds kTimeToFollow{3};
/// Helpers of a program end within less than this after it.
constexpr std::chrono::seconds kTimeForHelpers{1};

}  // namespace

WorkerGroup::WorkerGroup(boost::asio::any_io_executor executor, std::chrono::milliseconds grace,
                         Hooks hooks)
    : executor_(std::move(executor)),
      grace_(grace),
      hooks_(std::move(hooks)),
      deadline_(executor_),
      retry_(executor_) {}

Result<std::vector<Child>> WorkerGroup::start(std::vector<Command> commands) {
  const auto started = std::chrono::steady_clock::now();
  Spawned spawned = spawn(std::move(commands));
  batch_ = std::move(spawned.batch);
  adopt(spawned.children, started);
  if (spawned.failure) return *spawned.failure;
  return std::move(spawned.children);
}

void WorkerGroup::adopt(std::vector<Child>& children,
                        std::chrono::steady_clock::time_point started) {
  for (Child& child : children) {
    const size_t i = members_.size();
    Member& member = members_.emplace_back(Member{Worker(executor_, child), started, false});
    ++running_;
    const int local_rank = static_cast<int>(i);
    member.worker.when_ended(
        [this, local_rank](ExitStatus status) { on_worker_ended(local_rank, status); },
        [this, local_rank] {
          if (hooks_.worker_held) hooks_.worker_held(local_rank);
        });
  }
  tell_guardian();
}

void WorkerGroup::tell_guardian() const {
  std::vector<pid_t> pids;
  for (const Member& member : members_) pids.push_back(member.worker.pid());
  set_first_to_kill(pids);
}

void WorkerGroup::on_worker_ended(int local_rank, ExitStatus status) {
  --running_;
  Member& member = members_[static_cast<size_t>(local_rank)];
  member.deputies.reset();
  const pid_t pid = member.worker.pid();
  // Check right after the worker was reaped, before its pid can be reused.
  if (kill(-pid, 0) == 0 || errno == EPERM) orphaned_groups_.insert(pid);
  hooks_.worker_ended(
      {local_rank, pid, status, std::chrono::steady_clock::now() - member.started, member.stopped,
       batch_ ? batch_->exec_failure(static_cast<size_t>(local_rank)) : std::nullopt});
  if (running_ == 0) finish_or_stop_orphans();
}

void WorkerGroup::finish_or_stop_orphans() {
  if (ended_) return;
  reap_orphans({});
  if (has_children()) return stop_orphans();
  ended_ = true;
  deadline_.cancel();
  retry_.cancel();
  hooks_.all_ended();
}

void WorkerGroup::stop(int signal, bool to_whole_groups) {
  if (ended_) return;
  if (std::exchange(asked_, true) || signal == SIGKILL || grace_.count() == 0) {
    kill_now();
  } else if (stop_signal_ == 0) {
    begin_stop(signal, to_whole_groups);
  }
  if (running_ == 0) finish_or_stop_orphans();  // also if no worker was started
}

void WorkerGroup::begin_stop(int signal, bool to_whole_groups) {
  stop_signal_ = signal;
  SignalCatchers catchers(signal, SignalUse::stop);
  for (Member& member : members_) {
    if (!member.worker.running()) continue;
    member.stopped = !member.worker.is_dead();  // its end may not have been reported yet
    auto first = to_whole_groups ? std::vector<SignalCatchers::Process>()
                                 : catchers.send(member.worker.pid());
    signal_first(member, std::move(first));
    member.worker.signal_group(SIGCONT);  // a stopped process cannot handle `signal`
    signalled_groups_.insert(member.worker.pid());
  }
  if (running_ == 0 || !orphaned_groups_.empty()) signal_orphans();
  deadline_.expires_after(grace_);
  deadline_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled || ended_) return;
    const std::vector<Descendant> left = descendants();
    kill_now();
    hooks_.killed(killed_, left);
  });
}

void WorkerGroup::signal_first(Member& member, std::vector<SignalCatchers::Process> catchers) {
  if (catchers.empty()) return member.worker.signal_group(stop_signal_);
  member.worker.signal_rest_at_end(stop_signal_);
  for (const SignalCatchers::Process& each : catchers) signalled_orphans_.insert(each.pid);
  if (catchers.front().pid == member.worker.pid()) return;
  member.deputies = std::make_shared<Deputies>(Deputies{{}, boost::asio::steady_timer(executor_)});
  for (SignalCatchers::Process& each : catchers)
    member.deputies->pidfds.emplace_back(executor_, each.pidfd.release());
  wait_for_deputies(member);
}

void WorkerGroup::wait_for_deputies(Member& member) {
  auto& pidfds = member.deputies->pidfds;
  if (pidfds.empty()) return signal_rest_soon(member);
  pidfds.back().async_wait(
      boost::asio::posix::descriptor_base::wait_read,
      [this, &member, there = std::weak_ptr(member.deputies)](boost::system::error_code cancelled) {
        const auto deputies = there.lock();
        if (cancelled || !deputies) return;
        pollfd its_end = {deputies->pidfds.back().native_handle(), POLLIN, 0};
        if (poll(&its_end, 1, 0) == 1) deputies->pidfds.pop_back();
        wait_for_deputies(member);
      });
}

/// A script ends with its program, or would start the next one.
void WorkerGroup::signal_rest_soon(Member& member) {
  member.deputies->moment.expires_after(kTimeToFollow);
  member.deputies->moment.async_wait(
      [this, &member, there = std::weak_ptr(member.deputies)](boost::system::error_code cancelled) {
        if (cancelled || there.expired()) return;
        member.worker.signal_rest_at_end(0);
        member.worker.signal_group(stop_signal_);
      });
}

void WorkerGroup::kill_now() {
  if (ended_) return;
  deadline_.cancel();
  if (stop_signal_ != SIGKILL) {
    stop_signal_ = SIGKILL;
    signalled_groups_.clear();
    signalled_orphans_.clear();
    killed_ = running();
    for (Member& member : members_) member.stopped = member.stopped || !member.worker.is_dead();
  }
  for (Member& member : members_) member.worker.signal_group(SIGKILL);
  signal_orphans();
}

/// Helpers of a program notice its end, and end by themselves.
void WorkerGroup::let_orphans_end() {
  if (deadline_.expiry() > std::chrono::steady_clock::now()) return;
  deadline_.expires_after(kTimeForHelpers);
  deadline_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled || stop_signal_ != 0) return;
    had_time_ = true;
    finish_or_stop_orphans();
  });
}

/// Sends SIGTERM to orphans, whichever signal their workers got: shells start background commands
/// with SIGINT ignored.
void WorkerGroup::stop_orphans() {
  if (stop_signal_ == 0 && !had_time_) return let_orphans_end();
  if (stop_signal_ == 0) {
    hooks_.stopping_orphans(descendants());
    return begin_stop(SIGTERM, true);
  }
  if (stop_signal_ != SIGTERM && stop_signal_ != SIGKILL) {
    stop_signal_ = SIGTERM;
    signalled_groups_.clear();
    signalled_orphans_.clear();
  }
  signal_orphans();
}

/// While workers run, signals only groups of ended workers: a running worker stops its own
/// children. When no worker runs, all remaining descendants are orphans.
void WorkerGroup::signal_orphans() {
  bool all_sent = true;
  for (const Descendant& process : descendants()) {
    const bool orphaned =
        running_ == 0 || stop_signal_ == SIGKILL || orphaned_groups_.count(process.group) != 0;
    if (!orphaned || signalled_groups_.count(process.group) != 0) continue;
    if (signalled_orphans_.count(process.pid) != 0) continue;  // a second SIGTERM may mean "hurry"
    if (signal_descendant(process, stop_signal_)) {
      signalled_orphans_.insert(process.pid);
    } else {
      all_sent = false;
    }
  }
  if (!all_sent || is_search_under_way()) retry_orphans();
}

/// A process that could not be signalled has ended or got another parent, or no descriptor was left
/// for it. No SIGCHLD may come to cause another try. The pauses grow, because some processes may
/// never be signalled (setuid).
void WorkerGroup::retry_orphans() {
  retry_.expires_after(is_search_under_way() ? kSearchPause
                                             : std::exchange(retry_pause_, 2 * retry_pause_));
  retry_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled && !ended_) signal_orphans();
  });
}

bool WorkerGroup::signal(int local_rank, int signal) {
  if (local_rank < 0 || static_cast<size_t>(local_rank) >= members_.size()) return false;
  Worker& worker = members_[static_cast<size_t>(local_rank)].worker;
  worker.signal_group(signal);
  return worker.running();
}

void WorkerGroup::child_changed() {
  if (ended_ || (members_.empty() && !asked_)) return;
  if (running_ == 0) return finish_or_stop_orphans();
  for (Member& member : members_) member.worker.child_changed();
  if (has_paused_children()) {
    find_continued();
    find_stopped();
  }
  reap_orphans(running_pids());
}

void WorkerGroup::find_stopped() {
  if (!hooks_.worker_stopped) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Worker& worker = members_[i].worker;
    const int signal = worker.stopped_by();
    if (signal != 0) hooks_.worker_stopped(static_cast<int>(i), worker.pid(), signal);
  }
}

void WorkerGroup::find_continued() {
  if (!hooks_.worker_continued) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Worker& worker = members_[i].worker;
    if (worker.was_continued()) hooks_.worker_continued(static_cast<int>(i), worker.pid());
  }
}

std::vector<int> WorkerGroup::running() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].worker.running()) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

std::set<pid_t> WorkerGroup::running_pids() const {
  std::set<pid_t> pids;
  for (const Member& member : members_) {
    if (member.worker.running()) pids.insert(member.worker.pid());
  }
  return pids;
}

}  // namespace ddprun::launcher
