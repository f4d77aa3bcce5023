// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/deadline_watch.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "agent/job/report.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "launcher/process/command_output.h"
#include "launcher/process/signal_catchers.h"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// The limit of the command that asks the scheduler. Nothing waits for its answer.
constexpr std::chrono::seconds kAnswerTime{30};
/// Nodes ask after the start of their workers, and not all at the same moment.
constexpr std::chrono::milliseconds kAskAfter{1'000}, kAskApart{20};
/// The end of a round ends all processes below this one, including the command that asks.
constexpr std::chrono::milliseconds kAskAgainAfter{60'000};
constexpr int kMostQuestions = 3;
/// The longest pause between looks for workers that begin, or set up a handler, after the signal.
constexpr std::chrono::seconds kLongestPause{10};

}  // namespace

std::optional<std::chrono::sys_seconds> parse_end(const std::string& text) {
  constexpr std::int64_t kLatest = 9'000'000'000;  // the year 2255: system_clock has nanoseconds
  const auto seconds = whole_number<std::int64_t>(text.substr(0, text.find('\n')), 1, kLatest);
  if (!seconds) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(*seconds));
}

std::string deadline_line(const Deadline& deadline, std::chrono::seconds left,
                          std::size_t signalled, std::size_t workers) {
  return deadline.job + "'s time limit is over" + (left > 0s ? " in " + duration_text(left) : "") +
         ": " + notice_text(deadline.signal, signalled, workers);
}

void DeadlineWatch::begin() {
  if (!job_.deadline) return;
  if (job_.deadline->end) return wait_until_due(*job_.deadline->end);
  if (job_.deadline->query.empty()) return;
  ask_after(kAskAfter + job_.node_rank.value_or(0) * kAskApart);
}

void DeadlineWatch::ask_after(std::chrono::milliseconds pause) {
  ask_soon_.expires_after(pause);
  ask_soon_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) ask();
  });
}

void DeadlineWatch::ask() {
  jobs_.run([query = job_.deadline->query] { return launcher::output_of(query, kAnswerTime); },
            [this](const Result<std::string>& answer) { on_answer(answer); });
}

void DeadlineWatch::on_answer(const Result<std::string>& answer) {
  const auto end = answer ? parse_end(*answer) : std::nullopt;
  if (end) return wait_until_due(*end);
  log::debug("--deadline_signal: the end of " + job_.deadline->job + " is not known: " +
             (answer ? "'" + printable(cut(answer->substr(0, answer->find('\n')), 100)) + "'"
                     : answer.error().message));
  const bool is_silent = !answer || answer->empty();
  if (is_silent && ++asked_ < kMostQuestions) ask_after(kAskAgainAfter);
}

/// Uses the clock that the scheduler and all nodes share.
void DeadlineWatch::wait_until_due(std::chrono::sys_seconds end) {
  end_ = end;
  due_.expires_at(end_ - job_.deadline->notice);
  due_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) look();
  });
}

void DeadlineWatch::look() {
  NodeProcesses node = processes_of_node_();
  std::set<pid_t> before;
  std::vector<pid_t> left_out;
  for (const WorkerWatch::Process& worker : node.workers) {
    if (signalled_.contains(worker.pid)) {
      before.insert(worker.pid);
    } else {
      left_out.push_back(worker.pid);
    }
  }
  signalled_ = std::move(before);  // an ended worker's number may be another's
  if (left_out.empty()) return look_again();
  jobs_.run([left_out = std::move(left_out),
             signal = job_.deadline->signal] { return launcher::send_notice(left_out, signal); },
            [this, node = std::move(node)](const std::vector<pid_t>& signalled) {
              on_signalled(node, signalled);
            });
}

void DeadlineWatch::on_signalled(const NodeProcesses& node, const std::vector<pid_t>& signalled) {
  signalled_.insert(signalled.begin(), signalled.end());
  const auto left =
      std::chrono::round<std::chrono::seconds>(end_ - std::chrono::system_clock::now());
  const std::string line =
      deadline_line(*job_.deadline, left, signalled_.size(), node.workers.size());
  const bool is_first = !std::exchange(said_, true);
  const bool is_news = is_first || !signalled.empty();
  if (is_news && node.node_rank == 0) {
    log::info(line);
  } else if (is_news) {
    log::debug(line);
  }
  look_again();
}

void DeadlineWatch::look_again() {
  const auto now = std::chrono::system_clock::now();
  if (now >= end_) return;
  due_.expires_at(now + std::exchange(pause_, std::min(2 * pause_, kLongestPause)));
  due_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) look();
  });
}

}  // namespace ddprun::agent
