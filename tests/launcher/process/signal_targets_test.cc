// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_targets.h"

#include <algorithm>
#include <map>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

using Pids = std::vector<int>;
using State = SignalView::State;

/// The processes of worker 1.
class Tree {
 public:
  SignalView& add(int pid, int parent, SignalView view) {
    children_[parent].push_back(pid);
    return views_[pid] = std::move(view);
  }

  Pids targets(SignalUse use = SignalUse::stop) {
    looks_ = 0;
    Pids found = signal_targets(
        1, use, [this](int pid) { return ++looks_, views_.at(pid); },
        [this](int pid) { return children_[pid]; });
    std::ranges::sort(found);
    return found;
  }
  Pids notice_targets() { return targets(SignalUse::notice); }

  int looks() const { return looks_; }

 private:
  std::map<int, SignalView> views_;
  std::map<int, Pids> children_;
  int looks_ = 0;
};

SignalView python(bool handles, State state = State::sleeps) {
  return {.handles = handles, .state = state, .executable = "/usr/bin/python3", .name = "python3"};
}

SignalView bash(bool handles) {
  return {.handles = handles,
          .state = State::waits_for_child,
          .executable = "/usr/bin/bash",
          .name = "train.sh"};
}

TEST_CASE("a worker that handles the signal gets it, and its data loaders do not") {
  Tree tree;
  tree.add(1, 0, python(true));
  tree.add(2, 1, python(true));
  CHECK(tree.targets() == Pids{1});
  CHECK(tree.notice_targets() == Pids{1});
  CHECK(tree.looks() == 1);
}

TEST_CASE("a worker without a handler is stopped with its group, whatever its helpers do") {
  for (const State state : {State::sleeps, State::computes}) {
    Tree tree;
    tree.add(1, 0, python(false, state));
    tree.add(2, 1, python(true));   // PyTorch's data loaders have their own handlers
    tree.add(3, 1, python(false));  // a server that forks them
    tree.add(4, 3, python(true));
    CHECK(tree.targets().empty());
  }
  Tree busy;
  busy.add(1, 0, python(false, State::computes));
  busy.add(2, 1, {.handles = true, .executable = "/usr/bin/ffmpeg"});
  CHECK(busy.targets().empty());
}

TEST_CASE("the program of a script without a handler gets the signal that it handles") {
  Tree tree;
  tree.add(1, 0, bash(false));
  tree.add(2, 1, bash(false));  // another script
  tree.add(3, 2, python(true));
  tree.add(4, 3, python(true));
  tree.add(5, 2, {.executable = "/usr/bin/tee"});
  CHECK(tree.targets() == Pids{3});
  CHECK(tree.notice_targets() == Pids{3});

  Tree conda;  // it reads the output of what it has started
  conda.add(1, 0, python(false));
  conda.add(2, 1, bash(false));
  conda.add(3, 2, python(true));
  CHECK(conda.targets() == Pids{3});

  Tree launcher;  // subprocess.run
  launcher.add(1, 0, python(false, State::waits_for_child));
  launcher.add(2, 1, python(true));
  launcher.add(3, 1, python(true));
  CHECK(launcher.targets() == Pids{2, 3});
}

TEST_CASE("a shell with a trap gets the signal, and so does the command that it waits for") {
  Tree tree;
  tree.add(1, 0, bash(true));
  tree.add(2, 1, python(true));
  CHECK(tree.targets() == Pids{1, 2});
  CHECK(tree.notice_targets() == Pids{1, 2});
}

TEST_CASE("a stop is for the whole group if the command of a shell with a trap has no handler") {
  Tree tree;
  tree.add(1, 0, bash(true));
  tree.add(2, 1, python(false));
  CHECK(tree.targets().empty());
  CHECK(tree.notice_targets() == Pids{1});
}

TEST_CASE("a shell's trap passes the signal on to commands with &") {
  Tree tree;
  tree.add(1, 0, bash(true));
  SignalView& program = tree.add(2, 1, python(true));
  program.ignores_interrupt = true;
  CHECK(tree.targets() == Pids{1});
  Tree ignoring;  // as if ddprun itself was started with &: then it is unknown
  ignoring.add(1, 0, bash(true)).ignores_interrupt = true;
  ignoring.add(2, 1, python(true)).ignores_interrupt = true;
  CHECK(ignoring.targets() == Pids{1, 2});
}

TEST_CASE("timeout's program gets the signal, as timeout would signal its whole group") {
  Tree tree;
  tree.add(1, 0, {.handles = true, .executable = "/usr/bin/timeout", .name = "timeout"});
  tree.add(2, 1, python(true));
  CHECK(tree.targets() == Pids{2});
  CHECK(tree.notice_targets() == Pids{2});
}

TEST_CASE("below a worker without a handler each process with one gets a notice") {
  Tree tree;
  tree.add(1, 0, python(false, State::computes));
  tree.add(2, 1, python(true));
  tree.add(3, 2, python(true));
  tree.add(4, 1, python(false));
  tree.add(5, 4, python(true));
  CHECK(tree.notice_targets() == Pids{2, 5});
  Tree none;
  none.add(1, 0, python(false));
  none.add(2, 1, python(false));
  CHECK(none.notice_targets().empty());
}

TEST_CASE("a worker with very many processes is searched only in part") {
  Tree tree;
  tree.add(1, 0, bash(false));
  for (int pid = 2; pid < 10'000; ++pid) tree.add(pid, pid / 2, bash(false));
  CHECK(tree.targets().empty());
  CHECK(tree.looks() <= 1000);
}

}  // namespace
}  // namespace ddprun::launcher
