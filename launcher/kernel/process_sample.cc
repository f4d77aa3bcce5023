// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/process_sample.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <list>
#include <map>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <semaphore>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/file_text.h"
#include "base/number.h"
#include "launcher/kernel/control_groups.h"
#include "launcher/kernel/topology.h"

namespace ddprun::launcher {
namespace {

using ReadClock = std::function<std::optional<double>()>;

constexpr std::chrono::milliseconds kTimeToRead{200};

class Mask {
 public:
  explicit Mask(const std::vector<int>& cpus) : words_(affinity_mask(cpus)) {}
  size_t size() const { return words_.size() * sizeof words_.front(); }
  const cpu_set_t* get() const { return reinterpret_cast<const cpu_set_t*>(words_.data()); }

 private:
  std::vector<unsigned long> words_;
};

/// A thread that waits until it is on its CPU, and then reads the clock. An affinity among the new
/// thread's attributes would be simpler, but if it is refused, old glibc cancels the thread.
class Reading {
 public:
  Reading(int cpu, const ReadClock& read, std::counting_semaphore<>& ends)
      : cpu_(cpu), read_(read), ends_(ends) {
    has_begun_ = pthread_create(&thread_, nullptr, run, this) == 0;
    if (!has_begun_) return;
    const Mask mask({cpu});
    pthread_setaffinity_np(thread_, mask.size(), mask.get());  // may fail: run() checks the CPU
    is_placed_.release();
  }
  Reading(const Reading&) = delete;

  bool has_begun() const { return has_begun_; }
  int cpu() const { return cpu_; }

  /// Lets the thread run on `others`, too, so that it ends.
  std::optional<double> finish(const Mask& others) {
    pthread_setaffinity_np(thread_, others.size(), others.get());
    pthread_join(thread_, nullptr);
    return clock_;
  }

 private:
  /// While this runs, the kernel has just noted the present time.
  static void* run(void* self) {
    auto& reading = *static_cast<Reading*>(self);
    reading.is_placed_.acquire();
    if (sched_getcpu() == reading.cpu_) reading.clock_ = reading.read_();
    if (sched_getcpu() != reading.cpu_) reading.clock_.reset();  // finish() has moved it
    reading.ends_.release();
    return nullptr;
  }

  const int cpu_;
  const ReadClock& read_;
  std::counting_semaphore<>& ends_;
  std::binary_semaphore is_placed_{0};
  bool has_begun_ = false;
  pthread_t thread_{};
  std::optional<double> clock_;
};

}  // namespace

std::map<int, double> cpu_clocks(const std::set<int>& cpus, const ReadClock& read) {
  const Mask allowed(allowed_cpus());
  const auto deadline = std::chrono::steady_clock::now() + kTimeToRead;
  std::counting_semaphore<> ends(0);
  std::list<Reading> readings;
  for (const int cpu : cpus) {
    if (!readings.emplace_back(cpu, read, ends).has_begun()) readings.pop_back();
  }
  bool in_time = true;
  for (size_t i = 0; i < readings.size() && in_time; ++i)
    in_time = ends.try_acquire_until(deadline);
  std::map<int, double> clocks;
  for (Reading& reading : readings) {
    if (const auto clock = reading.finish(allowed)) clocks[reading.cpu()] = *clock;
  }
  return clocks;
}

namespace {

constexpr double kFullLoad = 1024;  // the kernel's SCHED_CAPACITY_SCALE

/// System calls in which processes wait for long.
constexpr std::pair<long, std::string_view> kCalls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_recvfrom, "recv"},
    {SYS_recvmsg, "recv"},
    {SYS_sendto, "send"},
    {SYS_sendmsg, "send"},
    {SYS_connect, "connect"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_ppoll, "poll"},
    {SYS_pselect6, "select"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_rt_sigsuspend, "sigsuspend"},
    {SYS_rt_sigtimedwait, "sigtimedwait"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_openat, "openat"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
#ifdef SYS_pause  // newer architectures have only the general calls
    {SYS_pause, "pause"},
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
#endif
};

std::string_view name_of_call(long number) {
  const auto* const found =
      std::ranges::find(kCalls, number, [](auto& call) { return call.first; });
  return found == std::end(kCalls) ? std::string_view() : found->second;
}

/// The time on the clock by which the kernel notes a process's start.
double milliseconds_since_start() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

}  // namespace

ProcessSample sample_process(pid_t pid) {
  ProcessSample sample = parse_proc_status(proc_text(pid, "status"));
  sample.call = parse_proc_syscall(proc_text(pid, "syscall"));
  sample.frozen = sample.state != 'R' && is_frozen(pid);
  sample.load =
      parse_proc_sched(proc_text(pid, "sched"), "se.avg.runnable_avg").value_or(0) / kFullLoad;
  return sample;
}

/// If two reads of its CPU differ, the process runs.
std::vector<ProcessSample> sample_processes(const std::vector<pid_t>& pids) {
  std::vector<ProcessSample> samples;
  std::map<size_t, LastRun> runs;
  std::set<int> cpus;
  for (const pid_t pid : pids) {
    samples.push_back(sample_process(pid));
    if (samples.back().state == 'R') continue;
    auto run = parse_last_run(proc_text(pid, "stat"));
    const auto when = parse_proc_sched(proc_text(pid, "sched"), "se.exec_start");
    const auto again = parse_last_run(proc_text(pid, "stat"));
    if (!run || !again || run->cpu != again->cpu || !when || *when <= 0) continue;
    run->when = *when;
    runs[samples.size() - 1] = *run;
    cpus.insert(run->cpu);
  }
  const std::map<int, double> clocks = cpu_clocks(cpus, last_run_of_this_thread);
  const double now = milliseconds_since_start();
  // If that CPU is saturated, fall back to another CPU's clock.
  const std::optional<double> any_clock = last_run_of_this_thread();
  for (const auto& [i, run] : runs) {
    const auto own = clocks.find(run.cpu);
    const auto clock = own == clocks.end() ? any_clock : own->second;
    if (clock) samples[i].still = time_still(run, *clock, now);
  }
  return samples;
}

std::optional<double> last_run_of_this_thread() {
  return parse_proc_sched(file_text("/proc/thread-self/sched"), "se.exec_start");
}

std::string wait_channel(pid_t pid) {
  const std::string name = proc_text(pid, "wchan");
  return name == "0" ? "" : name;
}

std::string proc_text(pid_t pid, const std::string& name) {
  return file_text("/proc/" + std::to_string(pid) + "/" + name);
}

std::string executable_of(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t size = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, PATH_MAX);
  return {path, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

std::vector<pid_t> numbers_in_folder(const std::string& path) {
  std::vector<pid_t> numbers;
  const Directory folder = open_directory(path.c_str());
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr) {
    if (const pid_t number = std::atoi(entry->d_name); number > 0) numbers.push_back(number);
  }
  return numbers;
}

std::string_view proc_value(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1) {
    std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    const size_t begin = line.find_first_not_of(" \t:");
    if (begin != 0 && begin != line.npos) return line.substr(begin);
  }
  return {};
}

std::uint64_t proc_number(std::string_view text, std::string_view name, int base) {
  const std::string_view value = proc_value(text, name);
  std::uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number, base);
  return number;
}

ProcessSample parse_proc_status(std::string_view status) {
  ProcessSample sample;
  const std::string_view state = proc_value(status, "State");
  const std::string_view tracer = proc_value(status, "TracerPid");
  if (!state.empty()) sample.state = state.front();
  sample.traced = !tracer.empty() && tracer != "0";
  return sample;
}

std::string parse_proc_syscall(std::string_view text) {
  const long number = leading_number<long>(text).value_or(-1);
  if (number < 0) return "";  // "running", "-1 0x7ffd ..."
  const std::string_view name = name_of_call(number);
  return name.empty() ? "call " + std::to_string(number) : std::string(name);
}

/// Format: pid (comm) state; field 22 is its start, field 39 its CPU.
std::optional<LastRun> parse_last_run(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  unsigned long long started = 0;
  LastRun run;
  constexpr const char* kFields =
      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu %*u %*d "
      "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d";
  if (name_end == stat.npos ||
      std::sscanf(stat.c_str() + name_end + 1, kFields, &started, &run.cpu) != 2) {
    return std::nullopt;
  }
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  run.started = static_cast<double>(started) / per_second * 1e3;
  return run;
}

std::chrono::milliseconds time_still(const LastRun& run, double clock, double now) {
  const double most = std::max(now - run.started, 0.0);
  const std::chrono::duration<double, std::milli> still(std::clamp(clock - run.when, 0.0, most));
  return std::chrono::duration_cast<std::chrono::milliseconds>(still);
}

std::optional<double> parse_proc_sched(std::string_view sched, std::string_view name) {
  // Not from_chars: each start would load the mathematics library for it.
  const std::string text(proc_value(sched, name));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nullopt : std::optional(value);
}

}  // namespace ddprun::launcher
