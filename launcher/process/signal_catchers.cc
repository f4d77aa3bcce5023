// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_catchers.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "launcher/kernel/process_sample.h"
#include "launcher/process/process_use.h"

namespace ddprun::launcher {
namespace {

bool has_bit(const std::string& status, std::string_view name, int signal) {
  return ((proc_number(status, name, 16) >> (signal - 1)) & 1) != 0;
}

bool is_child(const std::string& status, pid_t parent) {
  return proc_number(status, "PPid") == static_cast<std::uint64_t>(parent);
}

/// The state of a process that does not handle the signal.
SignalView::State state_of(pid_t pid, const std::string& status) {
  const char state = parse_proc_status(status).state;
  const std::string channel = wait_channel(pid);
  if (channel == "do_wait") return SignalView::State::waits_for_child;
  const bool computes = state == 'R' || state == 'D' || channel.starts_with("futex");
  return computes ? SignalView::State::computes : SignalView::State::sleeps;
}

SignalView look_at(pid_t pid, int signal) {
  const std::string status = proc_text(pid, "status");
  SignalView view;
  view.handles = catches(status, signal);
  if (!view.handles) view.state = state_of(pid, status);
  view.ignores_interrupt = has_bit(status, "SigIgn", SIGINT);
  view.executable = executable_of(pid);
  view.name = proc_value(status, "Name");
  return view;
}

bool send_by(const Fd& pidfd, int signal) {
  return syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

bool has_handler(const std::string& status, int signal) {
  return has_bit(status, "SigCgt", signal);
}

/// Opens the descriptor first: /proc then describes its process, or that has ended.
Fd signal_if(bool (*condition)(const std::string& status, int signal), pid_t pid, pid_t parent,
             int signal) {
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return {};
  const std::string status = proc_text(pid, "status");
  if (!is_child(status, parent) || !condition(status, signal)) return {};
  return send_by(process, signal) ? std::move(process) : Fd();
}

}  // namespace

/// If a process handles even these two signals, it handles all: bash with a trap for EXIT ends at
/// any, and the starter of a container, in Go, passes each on. A process that blocks all passes
/// them on, too (tini), or is about to start a process, and may have no handler for them.
bool catches(const std::string& status, int signal) {
  if (has_handler(status, signal)) {
    return !has_bit(status, "SigCgt", SIGSYS) || !has_bit(status, "SigCgt", SIGVTALRM);
  }
  return has_bit(status, "SigBlk", signal) && !has_bit(status, "SigBlk", SIGVTALRM);
}

std::vector<SignalCatchers::Process> SignalCatchers::send(pid_t worker) {
  if (!is_child(proc_text(worker, "status"), getpid())) return {};
  std::map<int, int> parents = {{worker, getpid()}};
  const auto look = [this](pid_t pid) { return look_at(pid, signal_); };
  const auto children = [&](pid_t parent) {
    std::vector<pid_t> found = children_of(parent);
    for (const pid_t child : found) parents[child] = parent;
    return found;
  };
  std::vector<Process> signalled;
  for (const pid_t pid : signal_targets(worker, use_, look, children)) {
    Fd process = signal_if(catches, pid, parents[pid], signal_);
    if (!process) continue;
    if (use_ == SignalUse::stop) send_by(process, SIGCONT);  // a stopped process would not notice
    signalled.push_back({pid, std::move(process)});
  }
  return signalled;
}

std::vector<pid_t> SignalCatchers::children_of(pid_t parent) {
  if (!children_) children_ = children_by_parent();
  std::vector<pid_t> children;
  const auto [first, last] = children_->equal_range(parent);
  for (auto child = first; child != last; ++child) children.push_back(child->second);
  return children;
}

std::vector<pid_t> send_notice(const std::vector<pid_t>& workers, int signal) {
  SignalCatchers catchers(signal, SignalUse::notice);
  std::vector<pid_t> signalled;
  for (const pid_t worker : workers) {
    if (!catchers.send(worker).empty()) signalled.push_back(worker);
  }
  return signalled;
}

std::vector<pid_t> forward_signal(const std::vector<pid_t>& workers, int signal) {
  std::vector<pid_t> signalled = send_notice(workers, signal);
  for (const pid_t worker : workers) {
    if (std::ranges::count(signalled, worker) > 0) continue;
    if (signal_if(has_handler, worker, getpid(), signal)) signalled.push_back(worker);
  }
  return signalled;
}

}  // namespace ddprun::launcher
