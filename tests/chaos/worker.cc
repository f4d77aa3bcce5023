// SPDX-License-Identifier: Apache-2.0
// The program of the chaos tests: trains with exact arithmetic, so that the result is the same with
// any number of ranks, writes numbered lines, and keeps a stamp in a file: when it ran, what it has
// written, why it ended. The tests read the stamp and give commands through it.
//   CHAOS_STAMPS   folder of the stamps        CHAOS_LIFE    name of this run of ddprun
//   CHAOS_LINES    lines a step on each stream CHAOS_FINISH  a file: the training ends when it
//   exists CHAOS_STATE    file of the checkpoint

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "ddp/checkpoint.h"
#include "ddp/error.h"
#include "ddp/process_group.h"

namespace {

using Number = std::atomic<std::int64_t>;
using namespace std::chrono_literals;

constexpr int kSamples = 24;
constexpr std::size_t kParameters = 8;
constexpr int kPathSize = 256;

enum Command : std::int64_t {
  kNone = 0,
  kIgnoreTerm = 1,
  kLeaveChild = 2,
  kExit = 1000,  // and the exit code
};

/// tests/chaos/stamps.py has the same layout.
struct Stamp {
  Number start;  // CLOCK_BOOTTIME, ns
  Number last;   // when it last ran
  Number rank;
  Number out_lines;  // written completely
  Number err_lines;
  Number exit_code;  // that it chose itself; -1: none yet
  Number exit_time;
  Number user_signals;
  Number command;                          // written by the test
  std::array<char, kPathSize> error_file;  // its name has the number of the round
};

Stamp* stamp = nullptr;

std::int64_t now() {
  timespec time = {};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char* what) {
  std::perror(what);
  std::_Exit(99);
}

void map_stamp() {
  const std::string path =
      variable("CHAOS_STAMPS") + "/" + variable("CHAOS_LIFE") + "." + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Stamp)) != 0) refuse("stamp");
  void* memory = ::mmap(nullptr, sizeof(Stamp), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) refuse("stamp");
  stamp = static_cast<Stamp*>(memory);
  stamp->exit_code = -1;
  stamp->rank = std::atoi(variable("RANK").c_str());
  std::strncpy(stamp->error_file.data(), variable("TORCHELASTIC_ERROR_FILE").c_str(),
               kPathSize - 1);
  stamp->last = now();
  stamp->start = stamp->last.load();
}

[[noreturn]] void end(int code) {
  stamp->exit_time = now();
  stamp->exit_code = code;
  std::_Exit(code);
}

/// A child in a session of its own that is no longer this process's child, and ignores SIGTERM.
void leave_child() {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) std::_Exit(0);
  std::signal(SIGTERM, SIG_IGN);
  ::alarm(300);
  for (;;) ::pause();
}

void obey(std::int64_t command) {
  if (command == kIgnoreTerm) std::signal(SIGTERM, SIG_IGN);
  if (command == kLeaveChild) leave_child();
  if (command >= kExit) end(static_cast<int>(command - kExit));
}

void keep_stamp() {
  for (;;) {
    stamp->last = now();
    obey(stamp->command.exchange(kNone));
    std::this_thread::sleep_for(5ms);
  }
}

/// Lines of several lengths, each with a mark at its end, in one write.
void write_lines(int fd, char stream, Number& written) {
  static const int count = std::atoi(variable("CHAOS_LINES").c_str());
  for (int i = 0; i < count; ++i) {
    const std::int64_t number = written + 1;
    std::string line{stream};
    line += ' ' + std::to_string(::getpid()) + ' ' + std::to_string(number) + ' ';
    line.append(static_cast<std::size_t>(number * 37 % 150), 'x').append(".\n");
    if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) refuse("write");
    written = number;
  }
}

std::int64_t gradient(std::uint64_t step, std::uint64_t sample, std::uint64_t parameter,
                      std::int64_t value) {
  std::uint64_t x = step * 1'000'003 + sample * 7919 + parameter;
  x = (x ^ static_cast<std::uint64_t>(value)) * 0x9E37'79B9'7F4A'7C15ULL;
  return static_cast<std::int64_t>(x ^ (x >> 29U));
}

class Training {
 public:
  explicit Training(ddp::ProcessGroup& group)
      : group_(group), checkpoint_(variable("CHAOS_STATE")), finish_(variable("CHAOS_FINISH")) {}

  void run() {
    std::uint64_t done = checkpoint_.load(group_, {parameters_}).value_or(0);
    while (!step(done++)) {
      if (done % 5 == 0) checkpoint_.save(group_, done, {parameters_});
      write_lines(STDOUT_FILENO, 'o', stamp->out_lines);
      write_lines(STDERR_FILENO, 'e', stamp->err_lines);
      std::this_thread::sleep_for(40ms);  // the pace of a larger network
    }
    checkpoint_.save(group_, done, {parameters_});
    if (group_.rank() == 0) report(done);
  }

 private:
  /// Returns true when the training is to end, on all ranks at the same step.
  bool step(std::uint64_t number) {
    std::array<std::int64_t, kParameters + 1> sums = {};
    for (auto sample = static_cast<std::uint64_t>(group_.rank()); sample < kSamples;
         sample += static_cast<std::uint64_t>(group_.size())) {
      for (std::size_t p = 0; p < kParameters; ++p) {
        sums[p] = add(sums[p], gradient(number, sample, p, parameters_[p]));
      }
    }
    sums[kParameters] = ::access(finish_.c_str(), F_OK) == 0 ? 1 : 0;
    group_.all_reduce(sums);
    for (std::size_t p = 0; p < kParameters; ++p) parameters_[p] = add(parameters_[p], sums[p]);
    return sums[kParameters] != 0;
  }

  static std::int64_t add(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  void report(std::uint64_t steps) const {
    std::string line = "final " + std::to_string(steps);
    for (const std::int64_t value : parameters_) line += ' ' + std::to_string(value);
    std::printf("%s .\n", line.c_str());
    std::fflush(stdout);
  }

  ddp::ProcessGroup& group_;
  ddp::Checkpoint checkpoint_;
  std::string finish_;
  std::array<std::int64_t, kParameters> parameters_ = {};
};

void train() {
  auto group = ddp::init_process_group({.backend = "cpu", .timeout = 60s});
  Training(group).run();
}

}  // namespace

int main() {
  map_stamp();
  std::signal(SIGUSR1, [](int) { ++stamp->user_signals; });
  std::thread(keep_stamp).detach();
  try {
    train();
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "training: %s\n", error.what());
    // The other ranks' failure is not to hide the first one: ddprun stops this process before that.
    std::this_thread::sleep_for(15s);
    end(1);
  }
  end(0);
}
