// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_targets.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

using State = SignalView::State;

/// Each look takes some 30 µs: the search stops in a script with more processes.
constexpr std::size_t kMostLooks = 1000;

bool is_shell(std::string_view executable) {
  constexpr std::array<std::string_view, 9> kShells = {"sh",  "ash",   "bash", "busybox", "dash",
                                                       "ksh", "ksh93", "mksh", "zsh"};
  executable.remove_prefix(executable.rfind('/') + 1);
  return std::ranges::find(kShells, executable) != kShells.end();
}

/// Whether `child` may be the program; `parent` does not handle the signal, or is timeout(1).
bool may_be_program(const SignalView& child, const SignalView& parent, SignalUse use) {
  if (use == SignalUse::notice || parent.state == State::waits_for_child) return true;
  if (parent.handles) return true;
  return parent.state == State::sleeps && child.executable != parent.executable;
}

/// Cannot tell for a shell that was itself started with &.
bool is_in_foreground(const SignalView& child, const SignalView& shell) {
  return !child.ignores_interrupt || shell.ignores_interrupt;
}

class Search {
 public:
  Search(SignalUse use, const std::function<SignalView(int)>& look,
         const std::function<std::vector<int>(int)>& children)
      : use_(use), look_(look), children_(children) {}

  /// Returns whether the process, or one below it, gets the signal.
  bool visit(int pid, const SignalView& process) {
    const bool gets_it = process.handles && process.name != "timeout";
    if (gets_it) targets_.push_back(pid);
    if (gets_it && !is_shell(process.executable)) return true;
    if (is_program(process)) return false;
    bool waits = false;
    bool below = false;
    for (const int child : children_(pid)) {
      if (++looks_ > kMostLooks) break;
      const SignalView view = look_(child);
      const bool is_next =
          gets_it ? is_in_foreground(view, process) : may_be_program(view, process, use_);
      waits = waits || is_next;
      below = (is_next && visit(child, view)) || below;
    }
    is_for_group_ = is_for_group_ || (gets_it && waits && !below);
    return gets_it || below;
  }

  std::vector<int> targets() && {
    if (is_for_group_ && use_ == SignalUse::stop) return {};
    return std::move(targets_);
  }

 private:
  bool is_program(const SignalView& process) const {
    return !process.handles && use_ == SignalUse::stop && process.state == State::computes;
  }

  SignalUse use_;
  const std::function<SignalView(int)>& look_;
  const std::function<std::vector<int>(int)>& children_;
  std::size_t looks_ = 1;
  bool is_for_group_ = false;
  std::vector<int> targets_;
};

}  // namespace

std::vector<int> signal_targets(int worker, SignalUse use,
                                const std::function<SignalView(int)>& look,
                                const std::function<std::vector<int>(int)>& children) {
  Search search(use, look, children);
  search.visit(worker, look(worker));
  return std::move(search).targets();
}

}  // namespace ddprun::launcher
