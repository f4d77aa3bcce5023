// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_watch.h"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "agent/diagnosis/stack_helper.h"
#include "agent/diagnosis/whereabouts.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/devices/gpu_wait_reader.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/py_spy.h"

namespace ddprun::agent {
namespace {

/// /proc answers at once, unless the kernel is stuck; the rest has limits of its own.
constexpr std::chrono::seconds kLongestLook{3};

/// A stop is reported after this time: shells and debuggers stop a process for a moment.
constexpr std::chrono::seconds kStopIsNews{1};

/// py-spy takes 0.1 s, and more on a busy host. Only a failure that itself waited for others waits
/// for these stacks.
constexpr std::chrono::milliseconds kStacks{2'000};
constexpr std::chrono::milliseconds kGpuWaits{500};  // with the others within kLongestLook

std::map<pid_t, PythonStack> stacks_of(const std::vector<WorkerWatch::Process>& processes,
                                       const std::string& program) {
  std::map<pid_t, PythonStack> stacks;
  const std::string py_spy = launcher::find_py_spy(program);
  if (py_spy.empty()) return stacks;
  std::vector<pid_t> pids;
  for (const WorkerWatch::Process& process : processes) pids.push_back(process.pid);
  for (const auto& [pid, text] : launcher::py_spy_dumps(py_spy, pids, kStacks)) {
    stacks[pid] = parse_py_spy(text, pid);
  }
  return stacks;
}

/// The busy processes that only poll for their GPU.
std::set<pid_t> waiting_for_gpus(const std::vector<WorkerWatch::Process>& processes,
                                 const std::vector<launcher::ProcessSample>& samples) {
  StackRequest request;
  request.waits = StackRequest::Waits::of_main_threads;
  request.limit = kGpuWaits;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (samples[i].state == 'R') request.pids.push_back(processes[i].pid);
  }
  std::set<pid_t> waiting;
  if (request.pids.empty()) return waiting;
  for (const auto& [pid, stack] : read_stacks(request).of) {
    if (stack.in_driver) waiting.insert(pid);
  }
  return waiting;
}

/// Takes the kernel's samples first, as the other workers may begin to fail.
WorkerWatch::Observation look_at(const std::vector<WorkerWatch::Process>& processes,
                                 const std::string& program) {
  std::vector<pid_t> pids;
  for (const auto& process : processes) pids.push_back(process.pid);
  const std::vector<launcher::ProcessSample> samples = launcher::sample_processes(pids);
  const auto calls = calls_of(processes);
  std::map<pid_t, PythonStack> stacks = stacks_of(processes, program);
  const std::set<pid_t> in_driver = waiting_for_gpus(processes, samples);
  WorkerWatch::Observation observed;
  for (size_t i = 0; i < processes.size(); ++i) {
    const int rank = processes[i].rank;
    const pid_t pid = processes[i].pid;
    ProcessStack stack;
    stack.sample = samples[i];
    stack.python = stacks[pid];
    stack.in_driver = in_driver.contains(pid);
    stack.uses_gpu = !stack.python.empty() && launcher::has_driver(pid);
    observed.places.push_back(with_calls(place_with_stack(rank, stack), calls.at(rank)));
    add_calls(observed.calls, rank, calls.at(rank));
  }
  observed.places = grouped(observed.places);
  return observed;
}

}  // namespace

void WorkerWatch::look(std::vector<Process> processes, std::function<void(Observation)> done) {
  auto limit = std::make_shared<boost::asio::steady_timer>(executor_, kLongestLook);
  const auto conclude = [limit, done = std::move(done), round = std::weak_ptr(round_),
                         concluded = std::make_shared<bool>(false)](Observation observed) {
    if (std::exchange(*concluded, true) || round.expired()) return;
    limit->cancel();
    done(std::move(observed));
  };
  limit->async_wait([conclude](boost::system::error_code cancelled) {
    if (!cancelled) conclude({});
  });
  jobs_.run([processes = std::move(processes),
             program = program_] { return look_at(processes, program); },
            conclude);
}

void WorkerWatch::stopped(const Process& process, int signal) {
  stops_[process.pid] = {std::chrono::steady_clock::now()};
  auto timer = std::make_shared<boost::asio::steady_timer>(executor_, kStopIsNews);
  timer->async_wait(
      [this, timer, process, signal, round = std::weak_ptr(round_)](boost::system::error_code ec) {
        if (!ec && !round.expired()) report_stop(process, signal);
      });
}

void WorkerWatch::report_stop(const Process& process, int signal) {
  jobs_.run(
      [pid = process.pid] { return launcher::sample_process(pid); },
      [this, process, signal, round = std::weak_ptr(round_)](const launcher::ProcessSample& now) {
        if (round.expired() || now.state != 'T' || now.traced) return;
        const auto stop = stops_.find(process.pid);
        if (stop == stops_.end() || std::exchange(stop->second.said, true)) return;
        log::warning(process_text(process) + " is stopped by " + launcher::signal_name(signal) +
                     "; to continue it: kill -CONT " + std::to_string(process.pid));
      });
}

void WorkerWatch::continued(const Process& process) {
  const auto stop = stops_.extract(process.pid);
  if (stop.empty() || !stop.mapped().said) return;
  const auto time = std::chrono::steady_clock::now() - stop.mapped().began;
  log::recovery(process_text(process) + " continues; it was stopped for " + duration_text(time));
}

std::string WorkerWatch::process_text(const Process& process) const {
  return "rank " + std::to_string(process.rank) + " (" + host_name_ + ", pid " +
         std::to_string(process.pid) + ")";
}

}  // namespace ddprun::agent
