// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/stack_helper.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

#include "base/file_text.h"
#include "base/number.h"
#include "launcher/devices/gpu_wait_reader.h"
#include "launcher/kernel/native_stack.h"
#include "launcher/kernel/stopped_thread.h"
#include "launcher/process/command_output.h"
#include "launcher/process/process_use.h"
#include "launcher/process/py_spy.h"

namespace ddprun::agent {
namespace {

using HelperClock = std::chrono::steady_clock;

constexpr std::string_view kHelperFlag = "--stack_helper";
constexpr std::string_view kNative = "native";
constexpr std::string_view kWaits = "waits";
constexpr std::string_view kMainWaits = "main_waits";
constexpr const char* kLastLine = "{}\n";
constexpr size_t kMostHelperBytes = 64 * 1024 * 1024;
constexpr int kMostAncestors = 64;
constexpr size_t kDumpsAtOnce = 16;  // processes of py-spy
/// A part of kStacksLimit: the rest is for the helper's start and its output.
constexpr std::chrono::milliseconds kHelperLimit{4'000};

// In the agent.

std::string_view mode_of(const StackRequest& request) {
  if (request.waits == StackRequest::Waits::of_all_threads) return kWaits;
  if (request.waits == StackRequest::Waits::of_main_threads) return kMainWaits;
  return request.native ? kNative : "";
}

launcher::Command helper_command(const StackRequest& request) {
  launcher::Command command;
  command.program = "/proc/self/exe";  // this program, even if its file was replaced
  command.arguments = {launcher::kStackReader, std::string(kHelperFlag),
                       std::string(mode_of(request)), request.program};
  for (const pid_t pid : request.pids) command.arguments.push_back(std::to_string(pid));
  return command;
}

// In the helper.

std::optional<StackRequest> request_of(std::span<const std::string> arguments) {
  StackRequest request;
  request.native = arguments[1] == kNative;
  if (arguments[1] == kWaits) request.waits = StackRequest::Waits::of_all_threads;
  if (arguments[1] == kMainWaits) request.waits = StackRequest::Waits::of_main_threads;
  request.program = arguments[2];
  for (const std::string_view word : arguments.subspan(3)) {
    const auto pid = whole_number<pid_t>(word, 1);
    if (!pid) return std::nullopt;
    request.pids.push_back(*pid);
  }
  return request;
}

/// Whether `pid` is a worker of this helper's agent, or a worker's process. Another process may
/// have got the number since.
bool is_of_worker(pid_t pid) {
  const pid_t agent = getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    pid = launcher::parent_of(pid);
    if (pid == agent) return true;
  }
  return false;
}

void block_child_signal() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);  // StoppedThread needs this
}

class Helper {
 public:
  explicit Helper(StackRequest request) : request_(std::move(request)) {
    std::erase_if(request_.pids, [](pid_t pid) { return !is_of_worker(pid); });
  }

  /// Reads the cheapest facts first: they are reported even if the time does not suffice.
  int run() {
    block_child_signal();
    if (request_.waits == StackRequest::Waits::none) {
      read_stacks();
    } else {
      find_waits(request_.pids);
    }
    write(kLastLine);
    return 0;
  }

 private:
  void read_stacks() {
    const std::vector<launcher::ProcessSample> samples = launcher::sample_processes(request_.pids);
    for (size_t i = 0; i < samples.size(); ++i) {
      const pid_t pid = request_.pids[i];
      stacks_[pid].sample = samples[i];
      stacks_[pid].wait_channel = launcher::wait_channel(pid);
      tell(pid);
    }
    find_refused();
    std::vector<pid_t> running;
    std::ranges::copy_if(readable_, std::back_inserter(running),
                         [this](pid_t pid) { return stacks_[pid].sample.state == 'R'; });
    find_waits(running);
    read_python();
    read_native();
  }

  void find_waits(const std::vector<pid_t>& pids) {
    // With stacks, only the main thread's wait is reported.
    const bool main_only = request_.waits != StackRequest::Waits::of_all_threads;
    launcher::find_gpu_waits(pids, main_only, [this](pid_t pid, auto waits) {
      ProcessStack& stack = stacks_[pid];
      stack.waits = std::move(waits);
      stack.in_driver =
          std::ranges::any_of(stack.waits, [pid](auto& wait) { return wait.tid == pid; });
      tell(pid);
      return left().count() > 0;
    });
  }

  static void write(const std::string& text) {
    if (write_all(STDOUT_FILENO, text) != 0) std::exit(1);  // its reader has ended
  }

  void tell(pid_t pid) const { write(line_of(pid, stacks_.at(pid))); }
  static void note(const std::string& text) { write(line_of_note(text)); }

  std::chrono::milliseconds left() const {
    const auto spent = HelperClock::now() - begun_;
    return kHelperLimit - std::chrono::duration_cast<std::chrono::milliseconds>(spent);
  }

  void find_refused() {
    for (const pid_t pid : request_.pids) {
      const std::string reason = launcher::trace_refusal(pid);
      if (reason.empty()) {
        readable_.push_back(pid);
      } else {
        note("no stacks: " + reason +
             ". A worker with PYTHONFAULTHANDLER=1 prints its own when it gets SIGABRT");
      }
    }
  }

  void read_python() {
    const std::string py_spy = launcher::find_py_spy(request_.program);
    std::vector<pid_t> of_python;
    std::ranges::copy_if(readable_, std::back_inserter(of_python), launcher::runs_python);
    if (py_spy.empty() && !of_python.empty()) {
      note(
          "the lines of Python need py-spy, beside the interpreter or in PATH: pip install py-spy");
      return;
    }
    for (size_t i = 0; i < of_python.size(); i += kDumpsAtOnce) {
      const size_t end = std::min(i + kDumpsAtOnce, of_python.size());
      if (left().count() <= 0) return note_late(of_python.size() - i);
      for (const auto& [pid, text] :
           launcher::py_spy_dumps(py_spy, {&of_python[i], &of_python[i] + (end - i)}, left())) {
        stacks_[pid].python = parse_py_spy(text, pid);
        stacks_[pid].uses_gpu = launcher::has_driver(pid);
        tell(pid);
      }
    }
  }

  void read_native() {
    std::vector<pid_t> pids;
    std::ranges::copy_if(readable_, std::back_inserter(pids), [this](pid_t pid) {
      return request_.native || stacks_[pid].python.empty() || stacks_[pid].in_driver;
    });
    if (pids.empty()) return;
    unsetenv("DEBUGINFOD_URLS");  // libdw would ask these servers for debug information
    Result<launcher::NativeStacks> library = launcher::NativeStacks::load();
    if (!library) return note(library.error().message);
    for (size_t i = 0; i < pids.size(); ++i) {
      if (left().count() <= 0) return note_late(pids.size() - i);
      read_native(*library, pids[i]);
    }
  }

  void read_native(launcher::NativeStacks& library, pid_t pid) {
    const Result<std::vector<launcher::NativeCall>> calls = library.read(pid);
    if (!calls) return;  // it has ended, or is in uninterruptible sleep: its state says so
    for (const launcher::NativeCall& call : *calls) {
      stacks_[pid].native.push_back(call);
    }
    tell(pid);
  }

  void note_late(size_t processes) const {
    note("not all in time: no calls of " + std::to_string(processes) + " of " +
         std::to_string(request_.pids.size()) + " workers");
  }

  StackRequest request_;
  const HelperClock::time_point begun_ = HelperClock::now();
  std::map<pid_t, ProcessStack> stacks_;
  std::vector<pid_t> readable_;
};

}  // namespace

ProcessStacks read_stacks(const StackRequest& request) {
  const auto outputs = launcher::outputs_of({helper_command(request)}, kMostHelperBytes,
                                            HelperClock::now() + request.limit);
  const auto& [lines, is_whole, failure] = outputs.front();
  ProcessStacks stacks = read_stack_lines(lines);
  if (failure) {
    stacks.notes.push_back("no stacks: " + failure->message);
  } else if (!lines.ends_with(kLastLine)) {
    stacks.notes.emplace_back(
        "some stacks are missing: the process that reads them did not end in time, or was killed");
  }
  return stacks;
}

bool is_stack_helper(std::span<const std::string> arguments) {
  return arguments.size() >= 3 && arguments.front() == kHelperFlag;  // there may be no pids
}

int run_stack_helper(std::span<const std::string> arguments) {
  prctl(PR_SET_NAME, launcher::kStackReader);
  std::optional<StackRequest> request = request_of(arguments);
  return request ? Helper(std::move(*request)).run() : 2;
}

}  // namespace ddprun::agent
