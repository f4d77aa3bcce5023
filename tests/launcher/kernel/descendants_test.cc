// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/descendants.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "launcher/guardian/survivors.h"
#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

/// A child, and its child in another session; both wait until they are killed.
class Family {
 public:
  Family() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    const Fd writer(ends[1]);
    child_ = fork();
    if (child_ == 0) {
      const pid_t grandchild = fork();
      if (grandchild == 0) setsid();
      if (grandchild > 0 && write(writer.get(), &grandchild, sizeof grandchild) < 0) _exit(1);
      for (;;) pause();
    }
    REQUIRE(read(reader.get(), &grandchild_, sizeof grandchild_) == sizeof grandchild_);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() {
    for (const pid_t pid : {child_, grandchild_}) {
      if (waitpid(pid, nullptr, WNOHANG) != 0) continue;  // it was reaped
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  pid_t child() const { return child_; }
  pid_t grandchild() const { return grandchild_; }

  /// Kills and reaps the child, so that the grandchild becomes ours.
  void end_child() const {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_ = 0;
  pid_t grandchild_ = 0;
};

/// Uses up all descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {64, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; fd >= 0;) {
      fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
      if (fd >= 0) taken_.emplace_back(fd);
    }
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
  std::vector<Fd> taken_;
};

/// Leaves only memory in small pieces: less than opendir(3) takes at once.
class LittleMemory {
 public:
  LittleMemory() {
    std::array<void*, 128> pieces = {};
    for (void*& piece : pieces) {
      piece = std::malloc(kSmall);
      keep(std::malloc(kSmall));  // keeps pieces apart, so that they form no larger one
    }
    getrlimit(RLIMIT_AS, &before_);
    const rlimit none = {1, before_.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    while (void* block = std::malloc(kLarge)) keep(block);
    for (void* piece : pieces) std::free(piece);
  }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;
  ~LittleMemory() {
    setrlimit(RLIMIT_AS, &before_);
    while (last_ != nullptr) std::free(std::exchange(last_, *static_cast<void**>(last_)));
  }

 private:
  static constexpr std::size_t kSmall = 16 << 10;
  static constexpr std::size_t kLarge = 32 << 10;

  void keep(void* block) { *static_cast<void**>(block) = std::exchange(last_, block); }

  rlimit before_ = {};
  void* last_ = nullptr;  // a list of the taken blocks
};

std::optional<Descendant> listed(pid_t pid) {
  const std::vector<Descendant> all = descendants();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [pid](const Descendant& each) { return each.pid == pid; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

int ended_by(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("descendants in other sessions are listed") {
  const Family family;
  const auto grandchild = listed(family.grandchild());
  REQUIRE(grandchild);
  CHECK(grandchild->parent == family.child());
  CHECK(listed(family.child())->parent == getpid());
}

TEST_CASE("descendants are found and signalled when no descriptor is left") {
  reserve_descriptors();
  const Family family;
  for (int time = 0; time < 2; ++time) {  // the reserve must be there again
    bool none_left = false;
    bool found = false;
    bool sent = false;
    {
      const NoDescriptors none;  // no checks here: sanitizers need descriptors for them
      none_left = open("/dev/null", O_RDONLY | O_CLOEXEC) == -1;
      const auto grandchild = listed(family.grandchild());
      found = grandchild.has_value();
      sent = found && signal_descendant(*grandchild, SIGCONT);
    }
    REQUIRE(none_left);
    CHECK(found);
    CHECK(sent);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take memory themselves
TEST_CASE("descendants are found when little memory is left") {
  const Family family;
  bool little = false;
  bool found = false;
  {
    const LittleMemory memory;
    little = opendir("/proc") == nullptr;
    found = listed(family.grandchild()).has_value();
  }
  REQUIRE(little);
  CHECK(found);
}
#endif

TEST_CASE("a process whose parent died since it was listed is still signalled") {
  const Family family;
  const auto grandchild = listed(family.grandchild());
  REQUIRE(grandchild);
  family.end_child();
  REQUIRE(signal_descendant(*grandchild, SIGKILL));
  CHECK(ended_by(family.grandchild()) == SIGKILL);
}

TEST_CASE("another process with a listed pid is not signalled") {
  const Family family;
  const auto grandchild = listed(family.grandchild());
  REQUIRE(grandchild);
  Descendant other = *grandchild;
  other.parent = getppid();
  CHECK_FALSE(signal_descendant(other, SIGKILL));
  CHECK(listed(family.grandchild()));
}

TEST_CASE("the own child and its descendants count only for signals to all") {
  const Family family;
  set_own_child(family.child());
  CHECK(descendants().empty());
  CHECK(unreaped_descendants().empty());
  CHECK_FALSE(has_children());
  {
    const Family other;
    CHECK(descendants().size() == 2);
    CHECK(has_children());
  }
  signal_all_descendants(SIGKILL);
  siginfo_t info = {};
  REQUIRE(waitid(P_PID, static_cast<id_t>(family.child()), &info, WEXITED | WNOWAIT) == 0);
  reap_orphans({});
  CHECK(waitid(P_PID, static_cast<id_t>(family.child()), &info, WEXITED | WNOWAIT) == 0);
  set_own_child(0);
  CHECK(has_children());
}

TEST_CASE("an ended child is not a descendant, but a child") {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info = {};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(listed(child));
  CHECK(has_children());
  reap_orphans({child});
  CHECK(has_children());
  reap_orphans({});
  CHECK_FALSE(has_children());
}

TEST_CASE("a blocked signal is pending until it is read") {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, &before);
  CHECK_FALSE(has_pending_signal(getpid(), SIGUSR1));
  kill(getpid(), SIGUSR1);
  CHECK(has_pending_signal(getpid(), SIGUSR1));
  CHECK_FALSE(has_pending_signal(getpid(), SIGUSR2));
  int signal = 0;
  sigwait(&set, &signal);
  CHECK_FALSE(has_pending_signal(getpid(), SIGUSR1));
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("a process name with blanks and parentheses is parsed") {
  const auto process = parse_proc_stat("4242 (tr (ain) x) S 17 4241 4242 0 -1 4194304");
  REQUIRE(process);
  CHECK(process->pid == 4242);
  CHECK(process->name == "tr (ain) x");
  CHECK(process->state == 'S');
  CHECK(process->parent == 17);
  CHECK(process->group == 4241);
  CHECK_FALSE(parse_proc_stat(""));
  CHECK_FALSE(parse_proc_stat("12 (x"));
  CHECK_FALSE(parse_proc_stat("12 (x) S"));
}

TEST_CASE("pending signals are those of the thread and of the process") {
  CHECK(parse_pending_signals("Name:\tx\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000004000\n") ==
        0x4002);
  CHECK(parse_pending_signals("") == 0);
}

TEST_CASE("a process has ended when none of its threads is left") {
  const auto ended = [](char state, int threads) {
    return has_ended(
        {.pid = 7, .parent = 1, .group = 7, .state = state, .name = "", .threads = threads});
  };
  CHECK(ended('Z', 1));
  CHECK(ended('X', 0));
  CHECK_FALSE(ended('Z', 2));
  CHECK_FALSE(ended('S', 1));
  CHECK_FALSE(ended('?', 0));
  CHECK(parse_proc_stat("7 (x) Z 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 5")->threads == 3);
}

#if !defined(__SANITIZE_THREAD__)  // it lets no forked process have threads
TEST_CASE("a process whose main thread has ended is listed and can be killed") {
  const pid_t child = fork();
  if (child == 0) {
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          for (;;) pause();
        },
        nullptr);
    syscall(SYS_exit, 0);  // pthread_exit would unwind to the test's own handlers
  }
  while (!listed(child) || listed(child)->state != 'Z') usleep(1000);
  CHECK(listed(child)->threads == 2);
  kill_and_reap_descendants();
  while (has_children()) kill_and_reap_descendants();
  CHECK_FALSE(listed(child));
}
#endif

TEST_CASE("a killed process that stays is reported with its reason") {
  const auto with = [](const auto& change) {
    Survivor survivor;
    survivor.process = {
        .pid = 7, .parent = 1, .group = 7, .state = 'S', .name = "dd", .threads = 1};
    change(survivor);
    return survivor_text(survivor);
  };
  CHECK(with([](Survivor&) {}) == "pid 7 (dd) has not ended yet");
  CHECK(with([](Survivor& s) { s.sleeping = true; }) ==
        "pid 7 (dd) is in uninterruptible sleep (D)");
  CHECK(with([](Survivor& s) { s.frozen = s.sleeping = true; }) ==
        "pid 7 (dd) is frozen by its control group");
  CHECK(with([](Survivor& s) { s.may_signal = false; }) ==
        "pid 7 (dd) runs as root, and ddprun may not end it");
  CHECK(with([](Survivor& s) {
          s.may_signal = false;
          s.user = 1005;
        }) == "pid 7 (dd) runs as the user with id 1005, and ddprun may not end it");
  CHECK(with([](Survivor& s) {
          s.may_signal = false;
          s.process.name = "";
        }) == "pid 7 runs as another user, and ddprun may not end it");
  const auto traced = [](Survivor& s) {
    s.tracer = 9;
    s.tracer_name = "gdb";
  };
  CHECK(with(traced) == "pid 7 (dd) is held by pid 9 (gdb), which traces it");
  CHECK(with([&](Survivor& s) {
          traced(s);
          s.process.state = 'Z';
        }) == "pid 7 (dd) has ended, but pid 9 (gdb), which traces it, has not let it go");
}
