// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/progress_monitor.h"

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/diagnosis/stack_helper.h"
#include "agent/progress/notify_message.h"
#include "agent/worker/worker_env.h"
#include "base/log.h"
#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostStatuses = 8;
constexpr std::uint64_t kStopsOfReading = 2;  // for its calls, and for its wait for a GPU
constexpr std::string_view kSocket = "NOTIFY_SOCKET";

/// The size of files that the workers themselves write.
std::uint64_t size_of(const std::vector<std::shared_ptr<const launcher::LogFile>>& files) {
  std::uint64_t size = 0;
  for (const auto& file : files) {
    struct stat about{};
    if (fstat(file->fd(), &about) == 0) size += static_cast<std::uint64_t>(about.st_size);
  }
  return size;
}

/// If CPU time is the only sign of progress, adds the GPU waits of the busy processes: CPU time of
/// a wait for a GPU is no progress.
void find_gpu_waits(const std::vector<launcher::ProcessUse>& before,
                    std::vector<launcher::ProcessUse>& now, double seconds,
                    std::uint64_t readings) {
  const launcher::UseChange change = launcher::change_of(before, now, seconds);
  if (change.work || !change.cpu) return;
  StackRequest request;
  request.waits = StackRequest::Waits::of_all_threads;
  for (size_t i = 0; i < now.size(); ++i) {
    const bool is_busy = launcher::change_of({before[i]}, {now[i]}, seconds).cpu;
    if (is_busy) request.pids.push_back(now[i].pid);
  }
  if (request.pids.empty()) return;
  ProcessStacks found = read_stacks(request);
  for (size_t i = 0; i < now.size(); ++i) {
    now[i].waits = std::move(found.of[now[i].pid].waits);
    now[i].waits =
        without_stops(before[i].waits, std::move(now[i].waits), readings * kStopsOfReading);
  }
}

}  // namespace

ProgressMonitor::ProgressMonitor(boost::asio::any_io_executor executor, const JobSpec& job,
                                 launcher::Output& output)
    : executor_(std::move(executor)),
      job_(job),
      output_(output),
      socket_(executor_, [this](pid_t pid, std::string_view text) { on_message(pid, text); }),
      jobs_(executor_),
      timer_(executor_) {
  if (job_.progress_pattern.empty()) return;
  Result<ProgressPattern> pattern = ProgressPattern::parse(job_.progress_pattern);
  if (!pattern) return;  // the command line was checked
  pattern_ = std::move(*pattern);
  output_.when_read([this](int rank, bool is_stderr, std::string_view bytes) {
    on_output(rank, is_stderr, bytes);
  });
}

void ProgressMonitor::open(const std::vector<std::string>& environment) {
  if (find_variable(environment, kSocket) != nullptr) return;
  if (const Result<> opened = socket_.open(); !opened) {
    return log::warning(opened.error().message + ": heartbeats of workers are not seen");
  }
  variables_.push_back(std::string(kSocket) + "=" + socket_.address());
  if (job_.hang_timeout.count() > 0) {
    const auto time = std::chrono::microseconds(job_.hang_timeout).count();
    variables_.push_back("WATCHDOG_USEC=" + std::to_string(time));
  }
}

void ProgressMonitor::begin(std::map<pid_t, int> ranks, Changed changed) {
  round_ = std::make_shared<char>();
  ranks_ = std::move(ranks);
  changed_ = std::move(changed);
  reported_.clear();
  lines_.clear();
  before_.reset();
  is_due_ = false;
  std::optional<HangWatch::Duration> limit;
  if (job_.hang_timeout.count() > 0) limit = job_.hang_timeout;
  watch_.emplace(limit, BootClock::now());
  look_later();
}

void ProgressMonitor::end() {
  round_.reset();
  watch_.reset();
  timer_.cancel();
}

void ProgressMonitor::on_message(pid_t sender, std::string_view text) {
  const std::optional<int> rank = watch_ ? launcher::rank_of(sender, ranks_) : std::nullopt;
  if (!rank) return;
  NotifyMessage message = parse_notify_message(text);
  if (message.is_heartbeat) beat(*rank);
  if (!message.status.empty()) reported_[*rank].status = std::move(message.status);
}

void ProgressMonitor::beat(int rank) {
  watch_->beat(rank, BootClock::now());
  reported_[rank].beat = std::chrono::steady_clock::now();
}

void ProgressMonitor::on_output(int rank, bool is_stderr, std::string_view bytes) {
  if (!watch_ || !lines_[{rank, is_stderr}].feed(bytes, *pattern_)) return;
  beat(rank);
}

void ProgressMonitor::look_later() {
  timer_.expires_after(watch_->interval());
  timer_.async_wait([this, round = std::weak_ptr(round_)](boost::system::error_code cancelled) {
    if (!cancelled && !round.expired()) look();
  });
}

/// Reads nothing while heartbeats come. While workers are stopped, waits for the end of the stops.
void ProgressMonitor::look() {
  is_due_ = stops_ > 0;
  if (is_due_) return;
  if (watch_->has_beaten()) {
    before_.reset();
    return take(watch_->look({}, BootClock::now()));
  }
  Sample sample = {BootClock::now(), output_.bytes_read(), {}, {}};
  jobs_.run(
      [sample = std::move(sample), files = output_.direct_files(), ranks = ranks_, before = before_,
       readings = std::exchange(readings_, 0)]() mutable {
        sample.output += size_of(files);
        sample.uses = launcher::uses_below(getpid());
        for (const launcher::ProcessUse& use : sample.uses) {
          const auto worker = ranks.find(use.pid);
          if (worker != ranks.end()) {
            sample.calls.push_back(launcher::calls_of(use.pid, worker->second));
          }
        }
        if (before && before->output == sample.output) {
          const std::chrono::duration<double> time = sample.when - before->when;
          find_gpu_waits(before->uses, sample.uses, time.count(), readings);
        }
        return std::move(sample);
      },
      [this, round = std::weak_ptr(round_)](Sample now) {
        if (!round.expired()) on_sample(std::move(now));
      });
}

void ProgressMonitor::on_sample(Sample sample) {
  const Signs signs = signs_since(sample);
  before_ = std::move(sample);
  take(watch_->look(signs, before_->when));
}

Signs ProgressMonitor::signs_since(const Sample& sample) const {
  Signs signs;
  signs.held =
      output_.is_held_up() || std::ranges::any_of(sample.uses, &launcher::ProcessUse::traced);
  // Without an earlier look, or without /proc, the workers' activity is unknown.
  signs.cpu = signs.output = !before_ || sample.uses.empty();
  if (!before_) return signs;
  const std::chrono::duration<double> time = sample.when - before_->when;
  const auto change = launcher::change_of(before_->uses, sample.uses, time.count());
  signs.output = signs.output || sample.output != before_->output;
  signs.cpu = signs.cpu || change.cpu;
  signs.work = change.work || before_->calls != sample.calls;
  signs.blocked = are_blocked(*before_, sample);
  return signs;
}

/// Whether each worker is in the same collective call as before.
bool ProgressMonitor::are_blocked(const Sample& before, const Sample& now) {
  const auto is_inside = [](const std::vector<launcher::WorkerCall>& calls) {
    return std::ranges::any_of(calls, [](auto& call) { return call.open > 0; });
  };
  return !now.calls.empty() && before.calls == now.calls &&
         std::ranges::all_of(now.calls, is_inside);
}

void ProgressMonitor::take(HangWatch::News news) {
  look_later();
  if (news == HangWatch::News::none) return;
  changed_(news, news == HangWatch::News::busy ? watch_->limit() : watch_->quiet_for());
}

void ProgressMonitor::begin_stops() {
  ++stops_;
  ++readings_;
}

void ProgressMonitor::end_stops() {
  if (--stops_ == 0 && is_due_ && watch_) look();
}

std::string ProgressMonitor::statuses() const {
  std::string text;
  size_t count = 0;
  for (const auto& [rank, reported] : reported_) {
    if (reported.status.empty()) continue;
    if (++count > kMostStatuses) return text + "; ...";
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(rank) + ": " + reported.status;
  }
  return text;
}

ProgressMonitor::Reported ProgressMonitor::reported(int rank) const {
  const auto found = reported_.find(rank);
  return found == reported_.end() ? Reported() : found->second;
}

}  // namespace ddprun::agent
