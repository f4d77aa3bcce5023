// SPDX-License-Identifier: Apache-2.0
// A program under ddp::record that ends as its argument says: record_worker HOW.

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ddp/record.h>
#include <exception>
#include <fcntl.h>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace app {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace app

// External names, which a backtrace shows.
[[gnu::noinline]] void load_digit() {
  throw app::Broken("no digit 7 in \"digits\\data\"");
}

[[gnu::noinline]] int overflow(volatile char* above) {  // NOLINT(misc-no-recursion)
  std::array<char, 1024> room{};
  volatile char* const own = room.data();
  own[0] = above[0];
  if (own[0] == 1) return 0;
  return overflow(own) + own[1];
}

int overflow_apart(volatile char* above);

[[gnu::noinline]] int overflow_together(volatile char* above) {  // NOLINT(misc-no-recursion)
  std::array<char, 1024> room{};
  volatile char* const own = room.data();
  own[0] = above[0];
  if (own[0] == 1) return 0;
  return overflow_apart(own) + own[1];
}

[[gnu::noinline]] int overflow_apart(volatile char* above) {  // NOLINT(misc-no-recursion)
  return overflow_together(above) + above[1];
}

[[gnu::noinline]] void write_to(int* place) {
  *const_cast<volatile int*>(place) = 1;
}

namespace {

/// Destructors run while the exception leaves.
struct Farewell {
  ~Farewell() { std::puts("farewell"); }
};

void fail_to_load() {
  const Farewell farewell;
  try {
    throw std::runtime_error("this one is handled");
  } catch (const std::runtime_error&) {
    load_digit();
  }
}

void nest() {
  try {
    try {
      throw std::system_error(ENOENT, std::generic_category(), "digits");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("cannot load"));
    }
  } catch (...) {
    std::throw_with_nested(app::Broken("epoch 3"));
  }
}

void use_up_descriptors() {
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
}

void handle(int signal) {
  constexpr char kText[] = "handled before\n";
  if (write(1, kText, sizeof kText - 1) < 0 || signal != SIGSEGV) _exit(1);
  _exit(6);
}

int end(const std::string& how) {
  static const std::map<std::string, int> signals = {
      {"SIGBUS", SIGBUS}, {"SIGFPE", SIGFPE}, {"SIGILL", SIGILL}};
  int* const nowhere = reinterpret_cast<int*>(0x10);
  volatile char bottom = 0;
  if (how == "throw") fail_to_load();
  if (how == "nested") nest();
  if (how == "int") throw 7;
  if (how == "text") throw "a\tb\xff\x1b";
  if (how == "thread") std::thread(load_digit).join();
  if (how == "noexcept") [&]() noexcept { load_digit(); }();
  if (how == "segv" || how == "handled") write_to(nowhere);
  if (how == "overflow") return overflow(&bottom);
  if (how == "overflow_of_two") return overflow_together(&bottom);
  if (how == "abort") std::abort();
  if (signals.contains(how)) std::raise(signals.at(how));
  if (how == "segv_without_descriptors") {
    use_up_descriptors();
    write_to(nowhere);
  }
  if (how == "segv_elsewhere") {
    if (chdir("/") == 0) write_to(nowhere);
  }
  if (how == "segv_of_two") {
    std::thread other(write_to, nowhere);
    write_to(nowhere);
  }
  if (how == "child") {
    const pid_t child = fork();
    if (child == 0) write_to(nowhere);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 0 : 1;
  }
  return how == "seven" ? 7 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "handled") std::signal(SIGSEGV, handle);
  return ddp::record([](int count, char** words) { return end(count > 1 ? words[1] : ""); }, argc,
                     argv);
}
