// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/preload.h"

#include <utility>

#include "agent/worker/worker_command.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

constexpr int kMostPrinted = 100;  // that an import may print

}  // namespace

Preload::Preload(boost::asio::any_io_executor executor, const JobSpec& job, std::string host_name,
                 std::function<void()> changed)
    : executor_(std::move(executor)),
      job_(job),
      host_name_(std::move(host_name)),
      changed_(std::move(changed)),
      limit_(executor_) {}

void Preload::begin(std::vector<std::string> inherited) {
  if (job_.preload.empty() || job_.cannot_run) return;
  inherited_ = std::move(inherited);
  start();
}

void Preload::start() {
  state_ = State::importing;
  began_ = std::chrono::steady_clock::now();
  last_lines_ = {};
  lines_ = 0;
  failure_ = {};
  ended_template_ = std::move(template_);
  template_ = std::make_unique<launcher::ForkTemplate>(
      executor_,
      launcher::ForkTemplate::Hooks{
          .import_ended =
              [this](const launcher::TemplateMessage& message) { on_import_ended(message); },
          .printed = [this](std::string_view line) { on_printed(line); },
          .ended =
              [this](launcher::ExitStatus status, const std::optional<Error>& exec_failure) {
                on_ended(status, exec_failure);
              }});
  const Result<> started = template_->start(template_command(job_, inherited_));
  if (!started) refuse(started.error().message);
}

void Preload::when_known(Known known) {
  known_ = std::move(known);
  if (unreported_) return settle(std::exchange(unreported_, std::nullopt));
  if (state_ == State::ended) start();
  if (state_ != State::importing) return settle(std::nullopt);
  limit();
}

void Preload::fork(std::vector<launcher::Command> commands,
                   std::function<void(launcher::Forked)> done) {
  limit();
  template_->fork(std::move(commands), [this, done = std::move(done)](launcher::Forked forked) {
    limit_.cancel();
    done(std::move(forked));
  });
}

void Preload::limit() {
  if (job_.hang_timeout.count() == 0) return;
  limit_.expires_after(job_.hang_timeout);
  const launcher::ProcessUse before = launcher::use_of_process(template_->pid());
  limit_.async_wait([this, before](boost::system::error_code cancelled) {
    if (cancelled) return;
    const launcher::ProcessUse now = launcher::use_of_process(template_->pid());
    const std::chrono::duration<double> time = job_.hang_timeout;
    if (launcher::change_of({before}, {now}, time.count()).cpu) return limit();
    failure_.cause = importing() + " (--preload) made no progress for " +
                     duration_text(job_.hang_timeout) + " (--hang_timeout)";
    template_->kill();
  });
}

std::string Preload::importing() const {
  return state_ == State::importing ? "importing " + preloaded_text(job_) : "";
}

void Preload::on_import_ended(const launcher::TemplateMessage& message) {
  using Kind = launcher::TemplateMessage::Kind;
  if (state_ != State::importing) return;
  if (message.kind == Kind::refused) return refuse(message.text);
  if (message.kind == Kind::failed) {  // it ends
    failure_.exception = message.text;
    failure_.traceback = message.traceback;
    return;
  }
  state_ = State::ready;
  settle(std::nullopt);
}

void Preload::on_printed(std::string_view line) {
  last_lines_.feed(std::string(line) + "\n");
  if (line.empty() || ++lines_ > kMostPrinted) return;
  log::info("--preload: " + (lines_ == kMostPrinted ? "..." : printable(line)));
}

void Preload::on_ended(launcher::ExitStatus status, const std::optional<Error>& exec_failure) {
  const State before = state_;
  if (state_ != State::off) state_ = State::ended;
  if (before == State::importing && exec_failure) {
    refuse(exec_failure->message);
  } else if (before == State::importing && status.success()) {
    refuse("it ended while importing " + preloaded_text(job_));
  } else if (before == State::importing) {
    const std::chrono::duration<double> ran = std::chrono::steady_clock::now() - began_;
    failure_.wait_status = status.wait_status();
    failure_.pid = template_->pid();
    failure_.seconds = ran.count();
    failure_.host = host_name_;
    failure_.stderr_tail = last_lines_.text();
    settle(failure_);
  }
  changed_();
}

void Preload::refuse(const std::string& cause) {
  state_ = State::off;
  log::warning("--preload has no effect, each worker imports " + preloaded_text(job_) +
               " itself: " + printable(cause));
  settle(std::nullopt);
}

void Preload::settle(std::optional<rendezvous::Failure> failure) {
  limit_.cancel();
  if (!known_) {
    unreported_ = std::move(failure);
  } else {
    std::exchange(known_, nullptr)(std::move(failure));
  }
}

}  // namespace ddprun::agent
