// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/native_stack.h"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "launcher/kernel/process_sample.h"
#include "launcher/kernel/stopped_thread.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::launcher {

// No compiler shortens these names, or joins these calls.
[[gnu::noinline]] void innermost_of_test() {
  for (;;) pause();
}

[[gnu::noinline]] void outermost_of_test() {
  innermost_of_test();
  asm volatile("");
}

namespace {

constexpr std::chrono::seconds kLongEnough{30};

/// A child that waits in innermost_of_test.
class Waiter {
 public:
  Waiter() : pid_(fork()) {
    if (pid_ == 0) outermost_of_test();
    wait_for_state('S');
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { kill_and_reap(); }

  pid_t pid() const { return pid_; }

  void kill_and_reap() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

  /// Call when it was reaped.
  void forget() { pid_ = 0; }

  /// If this hangs, the test program ends the test.
  void wait_for_state(char state) const {
    const auto is_there = [this, state] {
      const ProcessSample sample = sample_process(pid_);
      return sample.state == state && (state != 'S' || sample.call == "pause");
    };
    while (!is_there()) usleep(1'000);
  }

 private:
  pid_t pid_;
};

void block_child_signal() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
}

TEST_CASE("the calls of another process are read, the innermost first, and it keeps waiting") {
  block_child_signal();
  const Waiter waiter;
  auto stacks = NativeStacks::load();
  if (stacks.has_error() && stacks.error().code == Errc::usage) return;  // no libdw here
  for (const char* time : {"first", "again"}) {  // the second time, names come from the cache
    CAPTURE(time);
    const std::vector<NativeCall> calls = must(stacks->read(waiter.pid()));
    const auto place = [&calls](std::string_view name) {
      const auto found = std::ranges::find_if(calls, [name](const NativeCall& call) {
        return call.function.find(name) != std::string::npos;
      });
      return static_cast<size_t>(found - calls.begin());
    };
    const size_t inner = place("innermost_of_test");
    const size_t outer = place("outermost_of_test");
    CHECK(inner < outer);
    REQUIRE(outer < calls.size());
    CHECK_FALSE(calls[inner].where.empty());
    waiter.wait_for_state('S');
  }
}

TEST_CASE("names of functions are shown without parameters and arguments of templates") {
  const std::pair<const char*, const char*> names[] = {
      {"pause", "pause"},
      {"c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)", "c10d::Work::wait"},
      {"std::vector<int>::size() const", "std::vector::size"},
      {"(anonymous namespace)::f(int)", "(anonymous namespace)::f"},
      {"a::operator()(int)", "a::operator()"},
      {"a::operator<<(std::ostream&, b<int>)", "a::operator<<"},
      {"b<int>::operator->() const", "b::operator->"},
      {"b::operator>(int)", "b::operator>"},
      {"f(void (*)(int))", "f"},
      {"main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"},
      {"operator new(unsigned long)", "operator new"},
      {"f(", "f"},
      {"f)>", "f)>"},
      {"operator", "operator"},
      {"", ""},
  };
  for (const auto& [name, short_name] : names) CHECK(short_function_name(name) == short_name);
}

TEST_CASE("a process that has ended has no calls, and a missing library is named") {
  block_child_signal();
  Waiter waiter;
  const pid_t pid = waiter.pid();
  waiter.kill_and_reap();
  auto stacks = NativeStacks::load();
  if (stacks) CHECK(stacks->read(pid).has_error());
  const auto missing = NativeStacks::load("libno-such-dw.so");
  REQUIRE(missing.has_error());
  CHECK(missing.error().code == Errc::usage);
  CHECK(missing.error().message.find("libno-such-dw.so") != std::string::npos);
  CHECK(NativeStacks::load("libc.so.6").error().code == Errc::system);
}

TEST_CASE("a stopped thread runs again afterwards") {
  block_child_signal();
  const Waiter waiter;
  {
    const StoppedThread stopped = must(StoppedThread::stop(waiter.pid(), kLongEnough));
    CHECK(sample_process(waiter.pid()).state == 't');
    CHECK(StoppedThread::stop(waiter.pid(), kLongEnough).has_error());  // one tracer at a time
  }
  waiter.wait_for_state('S');
  CHECK_FALSE(sample_process(waiter.pid()).traced);
}

TEST_CASE("a thread that a signal had stopped stays stopped") {
  block_child_signal();
  const Waiter waiter;
  kill(waiter.pid(), SIGSTOP);
  waiter.wait_for_state('T');
  {
    const StoppedThread stopped = must(StoppedThread::stop(waiter.pid(), kLongEnough));
  }
  waiter.wait_for_state('T');
  kill(waiter.pid(), SIGCONT);
  waiter.wait_for_state('S');
}

TEST_CASE("a process whose tracer is killed runs again") {
  const Waiter waiter;
  int held[2];
  REQUIRE(pipe(held) == 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    block_child_signal();
    const auto stopped = StoppedThread::stop(waiter.pid(), kLongEnough);
    const char answer = stopped ? 'y' : 'n';
    if (::write(held[1], &answer, 1) == 1) pause();
    _exit(0);
  }
  char answer = 0;
  REQUIRE(read(held[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  CHECK(sample_process(waiter.pid()).state == 't');
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  waiter.wait_for_state('S');
  close(held[0]);
  close(held[1]);
}

TEST_CASE("the end of a process killed while held is seen when its tracer lets it go") {
  Waiter waiter;
  int held[2], go[2];
  REQUIRE(pipe(held) == 0);
  REQUIRE(pipe(go) == 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    block_child_signal();
    {
      const auto stopped = StoppedThread::stop(waiter.pid(), kLongEnough);
      char byte = stopped ? 'y' : 'n';
      if (::write(held[1], &byte, 1) != 1 || ::read(go[0], &byte, 1) != 1) _exit(1);
    }
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(held[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  kill(waiter.pid(), SIGKILL);
  waiter.wait_for_state('Z');
  REQUIRE(::write(go[1], &byte, 1) == 1);
  int status = 0;
  REQUIRE(waitpid(waiter.pid(), &status, 0) == waiter.pid());  // while its tracer lives
  CHECK(WTERMSIG(status) == SIGKILL);
  waiter.forget();
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  for (const int end : {held[0], held[1], go[0], go[1]}) close(end);
}

TEST_CASE("a signal that comes while a thread is being stopped is not lost") {
  for (int i = 0; i < 20; ++i) {
    Waiter waiter;
    // Catch leaves this signal alone. It comes before, while or after the thread stops.
    kill(waiter.pid(), SIGUSR1);
    const pid_t tracer = fork();
    if (tracer == 0) {
      block_child_signal();
      {
        const auto stopped = StoppedThread::stop(waiter.pid(), kLongEnough);
      }
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(tracer, &status, 0) == tracer);
    REQUIRE(waitpid(waiter.pid(), &status, 0) == waiter.pid());
    CHECK(WTERMSIG(status) == SIGUSR1);
    waiter.forget();
  }
}

}  // namespace
}  // namespace ddprun::launcher
