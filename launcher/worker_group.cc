// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker_group.h"

#include <csignal>
#include <utility>

namespace ddprun::launcher {

WorkerGroup::WorkerGroup(boost::asio::any_io_executor executor, std::chrono::milliseconds grace,
                         Hooks hooks)
    : executor_(std::move(executor)),
      grace_(grace),
      hooks_(std::move(hooks)),
      deadline_(executor_) {}

Result<std::vector<Child>> WorkerGroup::start(const std::vector<Command>& commands) {
  const auto started = std::chrono::steady_clock::now();
  Spawned spawned = spawn(commands);
  batch_ = std::move(spawned.batch);
  for (Child& child : spawned.children) {
    const size_t i = members_.size();
    Member& member = members_.emplace_back(Member{Worker(executor_, child), started, false});
    ++running_;
    member.worker.when_ended([this, local_rank = static_cast<int>(i)](ExitStatus status) {
      on_worker_ended(local_rank, status);
    });
  }
  if (spawned.failure) return *spawned.failure;
  return std::move(spawned.children);
}

void WorkerGroup::on_worker_ended(int local_rank, ExitStatus status) {
  --running_;
  const Member& member = members_[static_cast<size_t>(local_rank)];
  const pid_t pid = member.worker.pid();
  // Asked right after the leader was reaped, before its number can come round again.
  if (kill(-pid, 0) == 0) left_behind_.insert(pid);
  hooks_.worker_ended({local_rank, pid, status, std::chrono::steady_clock::now() - member.started,
                       member.stopped, batch_->exec_failure(static_cast<size_t>(local_rank))});
  if (running_ == 0) end_or_sweep();
}

void WorkerGroup::end_or_sweep() {
  if (ended_) return;
  reap_strays({});
  if (has_children()) {
    return stop_strays();
  }
  ended_ = true;
  deadline_.cancel();
  hooks_.all_ended();
}

void WorkerGroup::stop(int signal) {
  if (ended_) return;
  if (stop_signal_ != 0 || signal == SIGKILL || grace_ == std::chrono::milliseconds::zero()) {
    kill_now();
  } else {
    begin_stop(signal);
  }
  if (running_ == 0) end_or_sweep();  // none may have been started at all
}

void WorkerGroup::begin_stop(int signal) {
  stop_signal_ = signal;
  for (Member& member : members_) {
    if (!member.worker.running()) continue;
    member.stopped = !member.worker.is_dead();  // an end of its own may still wait to be heard of
    member.worker.signal_group(signal);
    member.worker.signal_group(SIGCONT);  // a stopped process sees the other only once it goes on
    told_groups_.insert(member.worker.pid());
  }
  if (running_ == 0 || !left_behind_.empty()) signal_strays();
  deadline_.expires_after(grace_);
  deadline_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled || ended_) return;
    hooks_.killing(running());
    kill_now();
  });
}

void WorkerGroup::kill_now() {
  if (ended_) return;
  deadline_.cancel();
  if (stop_signal_ != SIGKILL) {
    stop_signal_ = SIGKILL;
    told_groups_.clear();
    told_processes_.clear();
    killed_ = running();
    for (Member& member : members_) member.stopped = member.stopped || !member.worker.is_dead();
  }
  for (Member& member : members_) member.worker.signal_group(SIGKILL);
  signal_strays();
}

/// What outlives its worker gets SIGTERM, whatever its worker got: shells start background commands
/// with SIGINT ignored.
void WorkerGroup::stop_strays() {
  if (stop_signal_ == 0) return begin_stop(SIGTERM);
  if (stop_signal_ != SIGTERM && stop_signal_ != SIGKILL) {
    stop_signal_ = SIGTERM;
    told_groups_.clear();
    told_processes_.clear();
  }
  signal_strays();
}

/// While workers run, only what dead workers left behind is ours to signal: the rest is told by
/// its own worker. Once no worker runs, everything that is left is a stray.
void WorkerGroup::signal_strays() {
  for (const Descendant& process : descendants()) {
    const bool stray =
        running_ == 0 || stop_signal_ == SIGKILL || left_behind_.count(process.group) != 0;
    if (!stray || told_groups_.count(process.group) != 0) continue;
    if (told_processes_.count(process.pid) != 0)
      continue;  // a second SIGTERM means "hurry" to many
    if (signal_descendant(process, stop_signal_)) told_processes_.insert(process.pid);
  }
}

void WorkerGroup::forward(int signal) {
  for (Member& member : members_) member.worker.signal_leader(signal);
}

void WorkerGroup::child_changed() {
  if (ended_ || members_.empty()) return;
  if (running_ > 0) return reap_strays(running_pids());
  end_or_sweep();
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
