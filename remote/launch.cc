// SPDX-License-Identifier: Apache-2.0
#include "remote/launch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/wait_reporter.h"
#include "launcher/guardian/guardian.h"
#include "launcher/kernel/descendants.h"
#include "launcher/output/output.h"
#include "launcher/process/signal_reader.h"
#include "launcher/process/signals.h"
#include "launcher/process/spawn.h"
#include "remote/connection.h"
#include "remote/remote_agent.h"
#include "remote/roster.h"

namespace ddprun::remote {
namespace {

using namespace std::chrono_literals;

/// The time between two signs of life; launcher::ControlInput waits for several.
constexpr std::chrono::seconds kSignOfLife{10};

/// The agents of a job that failed end together: the last at most so long after the first.
constexpr std::chrono::seconds kEndTogether{10};

/// An agent that was told to stop ends at most so long after its workers.
constexpr std::chrono::seconds kTimeToEnd{15};

/// The longest time for the last output if its reader has stopped.
constexpr std::chrono::seconds kLastFlush{5};

std::string last_line(const std::string& text) {
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

class Launch {
 public:
  explicit Launch(const Job& job)
      : job_(job),
        output_(io_.get_executor()),
        signals_(io_.get_executor()),
        sign_of_life_(io_.get_executor()),
        start_limit_(io_.get_executor()),
        limit_(io_.get_executor()),
        wait_reporter_(io_.get_executor()),
        roster_(job.hosts.size(), job.least, job.has_spares),
        own_lines_(job.hosts.size()),
        agents_(job.hosts.size()) {
    log::set_writer([this](std::string_view line) { output_.write_own_line(line); });
  }
  Launch(const Launch&) = delete;

  ~Launch() {
    output_.finish(kLastFlush);
    log::set_writer({});
  }

  Result<Ending> run() {
    const Result<> reading = signals_.start([this](int signal) { on_signal(signal); });
    if (!reading) return reading.error();
    if (!job_.quit_stops) launcher::keep_quit_from_stopping();
    launcher::raise_open_files_limit();
    show_signs_of_life();
    await_starts();
    start_more();
    io_.run();
    const bool unwritten = roster_.code() == 0 && !output_.write_error().empty();
    return Ending{unwritten ? Roster::kOwnFailure : roster_.code(), roster_.lost_host()};
  }

 private:
  struct Agent {
    std::unique_ptr<Connection> connection;
    std::string said;         // its last line
    std::string too_late;     // why its start was given up, for the user; empty: it was not
    std::optional<int> code;  // its exit code, as it reported it
  };

  void start_more() {
    std::vector<size_t> hosts = roster_.start_more();
    // An agent of this host starts long before the others, and would only be in their way.
    std::stable_partition(hosts.begin(), hosts.end(), [this](size_t host) { return is_far(host); });
    for (const size_t host : hosts) start(host);
    if (!hosts.empty()) limit_starts(job_.start_limit, "within " + start_limit());
    if (roster_.all_ended()) finish();
  }

  bool is_far(size_t host) const { return job_.hosts[host].starter.size() > 2; }

  void start(size_t host) {
    if (stopped_) return static_cast<void>(roster_.has_ended(host, std::nullopt));
    auto connection = Connection::open(io_.get_executor(), job_.hosts[host], job_.secret);
    if (!connection) return on_not_started(host, connection.error().message);
    agents_[host].connection = std::move(*connection);
    const int rank = static_cast<int>(host);
    Connection& opened = *agents_[host].connection;
    output_.add_worker(rank, "", launcher::Buffering::line, opened.take_out(), opened.take_err());
    output_.take_marked_lines(rank, [this, host](std::string_view line) { on_said(host, line); });
    opened.when_ended([this, host](launcher::ExitStatus status) { on_ended(host, status); });
  }

  void on_not_started(size_t host, const std::string& why) {
    const Roster::Verdict verdict = roster_.has_ended(host, std::nullopt);
    report("host " + job_.hosts[host].name + ": " + why, verdict.stop);
  }

  void on_said(size_t host, std::string_view line) {
    Agent& agent = agents_[host];
    if (line == kReady) {
      roster_.is_ready(host);
      output_.show_stderr(static_cast<int>(host));
      start_more();
    } else if (line.starts_with(kEnded)) {
      const auto code = leading_number<int>(line.substr(kEnded.size()));
      if (code) agent.code = code;
    } else if (auto relayed = log::decode_relayed(line)) {
      agent.said = relayed->text;
      if (roster_.is_starting(host) || !own_lines_.is_new(host, relayed->text)) return;
      relayed->host = job_.hosts[host].name;
      log::show_relayed(*relayed);
    } else {
      agent.said = line;  // another version wrote it
    }
  }

  void on_ended(size_t host, launcher::ExitStatus status) {
    const int rank = static_cast<int>(host);
    const std::string tail = last_line(output_.stderr_end(rank).text);  // also reads its last line
    const Roster::Verdict verdict = roster_.has_ended(host, agents_[host].code);
    if (agents_[host].code == 0) on_success();
    report(ending_text(host, verdict.what, status, tail), verdict.stop);
  }

  /// Empty: the agent has reported everything itself.
  std::string ending_text(size_t host, Roster::Verdict::What what, launcher::ExitStatus status,
                          const std::string& tail) const {
    using What = Roster::Verdict::What;
    const HostSpec& spec = job_.hosts[host];
    const Agent& agent = agents_[host];
    if (what == What::ended || stopped_) return "";
    if (!agent.too_late.empty()) {
      return "host " + spec.name + ": ddprun did not start there " + agent.too_late;
    }
    if (what == What::lost) {
      return "host " + spec.name + " is lost: its " + starter_name(spec.starter) + " ended (" +
             status.text() + ")";
    }
    if (const auto failure = agent.connection->exec_failure()) {
      return "host " + spec.name + ": " + failure->message;
    }
    return start_failure_text({.host = spec.name,
                               .starter = spec.starter,
                               .code = status.code(),
                               .said = agent.said,
                               .tail = tail,
                               .instead = job_.instead});
  }

  void report(const std::string& sentence, Roster::Stop stop) {
    const bool stops_others = stop == Roster::Stop::now && roster_.left() > 0;
    if (!sentence.empty()) {
      log::error(sentence + (stops_others ? "; stopping the other hosts" : ""));
    }
    if (stop == Roster::Stop::now) stop_all(SIGTERM, Roster::kOwnFailure);
    if (stop == Roster::Stop::soon) {
      after(kEndTogether, [this] { stop_all(SIGTERM, Roster::kOwnFailure); });
    }
    boost::asio::post(io_, [this] { start_more(); });  // not from within itself
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) return on_child_changed();
    if (signal == SIGWINCH || (signal == SIGCONT && !launcher::guardian_is_gone())) return;
    const auto is = [signal](int other) { return other == signal; };
    if (signal == SIGCONT) return stop_all(SIGTERM, 128 + SIGTERM);
    if (signal == SIGQUIT && !job_.quit_stops) return send(signal);
    if (std::any_of(launcher::kStopSignals.begin(), launcher::kStopSignals.end(), is)) {
      return stop_all(signal, 128 + signal);
    }
    send(signal);
  }

  void on_child_changed() {
    for (const Agent& agent : agents_) {
      if (agent.connection) agent.connection->child_changed();
    }
    launcher::reap_orphans(pids());
  }

  /// A second call hurries the agents, as a second signal does.
  void stop_all(int signal, int code) {
    const auto grace = std::exchange(stopped_, true) ? 0ms : job_.stop_grace;
    give_up_starts("");
    roster_.stop(code);
    await_ends();
    send(signal);
    after(grace + kTimeToEnd, [this] { kill_all(); });
    if (roster_.all_ended()) finish();
  }

  void await_starts() {
    wait_reporter_.begin([this](std::chrono::seconds waited) {
      report_waiting(waited, "start", &Roster::is_starting, "; giving up after " + start_limit());
    });
  }

  void await_ends() {
    wait_reporter_.begin([this](std::chrono::seconds waited) {
      report_waiting(waited, "end", &Roster::is_running, "");
    });
  }

  /// Limits the wait: a login shell may wait for a dead file server without end.
  void limit_starts(std::chrono::milliseconds limit, const std::string& why) {
    start_limit_.expires_after(limit);
    start_limit_.async_wait([this, why](boost::system::error_code cancelled) {
      if (!cancelled) give_up_starts(why);
    });
  }

  std::string start_limit() const { return duration_text(job_.start_limit) + " (--join_timeout)"; }

  void report_waiting(std::chrono::seconds waited, const std::string& what,
                      bool (Roster::*concerns)(size_t) const, const std::string& limit) const {
    constexpr size_t kMost = 8;  // names
    std::string names;
    size_t count = 0;
    for (size_t host = 0; host < job_.hosts.size(); ++host) {
      if (!(roster_.*concerns)(host) || ++count > kMost) continue;
      names += (count > 1 ? ", " : "") + job_.hosts[host].name;
    }
    if (count > kMost) names += " and " + std::to_string(count - kMost) + " more";
    if (count > 0) {
      log::info("waiting " + duration_text(waited) + " for ddprun to " + what + " on " + names +
                limit);
    }
  }

  /// An agent that starts later has no master, and would look for one until the join timeout. An
  /// agent that took part may seem to be starting while its lines are on their way through its ssh.
  void on_success() {
    roster_.stop();
    limit_starts(kTimeToEnd, "before the job ended");
    await_ends();
  }

  void give_up_starts(const std::string& why) {
    for (size_t host = 0; host < agents_.size(); ++host) {
      Agent& agent = agents_[host];
      if (!roster_.is_starting(host) || !agent.connection) continue;
      agent.too_late = why;
      agent.connection->kill();
    }
  }

  void send(int signal) {
    for (const Agent& agent : agents_) {
      if (agent.connection) agent.connection->send(signal);
    }
  }

  void kill_all() {
    for (size_t host = 0; host < agents_.size(); ++host) {
      if (!roster_.is_running(host) || !agents_[host].connection) continue;
      log::error("host " + job_.hosts[host].name + ": ddprun there did not end: disconnected");
      agents_[host].connection->kill();
    }
  }

  void after(std::chrono::milliseconds time, std::function<void()> then) {
    limit_.expires_after(time);
    limit_.async_wait([then = std::move(then)](boost::system::error_code cancelled) {
      if (!cancelled) then();
    });
  }

  void show_signs_of_life() {
    send(0);
    sign_of_life_.expires_after(kSignOfLife);
    sign_of_life_.async_wait([this](boost::system::error_code cancelled) {
      if (!cancelled) show_signs_of_life();
    });
  }

  std::set<pid_t> pids() const {
    std::set<pid_t> pids;
    for (size_t host = 0; host < agents_.size(); ++host) {
      if (agents_[host].connection && roster_.is_running(host)) {
        pids.insert(agents_[host].connection->pid());
      }
    }
    return pids;
  }

  void finish() {
    limit_.cancel();
    output_.workers_are_gone();
    output_.when_drained([this] { io_.stop(); });
  }

  const Job& job_;
  boost::asio::io_context io_{1};
  launcher::Output output_;
  launcher::SignalReader signals_;
  boost::asio::steady_timer sign_of_life_;
  boost::asio::steady_timer start_limit_;
  boost::asio::steady_timer limit_;
  WaitReporter wait_reporter_;
  Roster roster_;
  OwnLines own_lines_;
  std::vector<Agent> agents_;
  bool stopped_ = false;
};

}  // namespace

Result<Ending> launch(const Job& job) {
  log::set_level(job.log_level);
  launcher::set_log_style(log::style_for(job.log_format, job.log_level, ""));
  if (!job.warning.empty()) log::warning(job.warning);
  for (const std::string& origin : job.origins) log::debug(origin);
  return Launch(job).run();
}

}  // namespace ddprun::remote
