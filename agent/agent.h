// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "agent/ask/answers.h"
#include "agent/ask/status.h"
#include "agent/job/events.h"
#include "agent/job/job_spec.h"
#include "agent/job/machine.h"
#include "agent/job/outcome.h"
#include "agent/job_reporter.h"
#include "agent/master/master_connection.h"
#include "agent/node_workers.h"
#include "agent/progress/deadline_watch.h"
#include "agent/stack_answers.h"
#include "base/async_jobs.h"
#include "base/boot_clock.h"
#include "base/wait_reporter.h"
#include "launcher/output/output.h"
#include "launcher/process/signal_reader.h"
#include "rendezvous/layout.h"
#include "rendezvous/session/client.h"

namespace ddprun::agent {

/// One node's part in a job. DOES what Machine decides: whatever happens (a signal, a notification
/// of the master, the end of a worker) becomes an event, and each event gives the actions to
/// perform.
///
/// Thread: the one that calls run().
class Agent {
 public:
  /// `job` is copied; `events` must outlive this.
  Agent(const JobSpec& job, Events& events);
  ~Agent();

  /// Does what agent::run does. Call it once.
  Outcome run();

 private:
  // Events.
  void on_signal(int signal);
  void notify_workers(int signal);
  void on_continued();
  void on_stop_asked();
  void on_master_found(Result<rendezvous::Resolver::Addresses> addresses);
  void on_became_master();
  void on_stepped_down();
  void on(const rendezvous::NodeEvent& event);
  void on(const rendezvous::node_event::Welcomed& event);
  void on(const rendezvous::node_event::Notified& event);
  void on(const rendezvous::node_event::WaitingFor& event);
  void on(const rendezvous::node_event::ConnectionChanged& event);
  void on(const rendezvous::node_event::Inquiring& event);
  void on(const rendezvous::node_event::LeaseRenewed& event);
  void on(const rendezvous::node_event::LeaseOver&);
  void on(const rendezvous::node_event::RoundLost& event);
  void on(const rendezvous::node_event::FailureCounted& event);
  void on(const rendezvous::node_event::FailureDropped& event);
  void on(const rendezvous::node_event::GaveUp& event);
  void on(const rendezvous::node_event::Connected&);
  void on(const rendezvous::node_event::Located& event);
  void on(const rendezvous::Ready& ready);
  void on(const rendezvous::Broken& broken);
  void on(const rendezvous::Closed& closed);
  void on(const rendezvous::Refused& refused);
  void on(const rendezvous::Stalled& stalled);

  // Actions. Events are handled one after the other, even if an action causes them.
  void handle_event(Event event);
  void report_stop();
  void perform(const Actions& actions);
  void perform(const action::Join&);
  void perform(const action::StartWorkers& start);
  void perform(const action::ReportFailure& report);
  void perform(const action::ReportStartFailure& report);
  void perform(const action::ReportSuccess&);
  void perform(const action::StopWorkers& stop);
  void perform(const action::Leave& leave);
  void perform(const action::Finish& end);

  void report_failure(const rendezvous::Failure& failure);
  void report_waiting();
  void report_job_failure();
  void finish(Outcome outcome);
  void end();
  BootClock::duration workers_run_for();
  Result<> open_page();
  Answers::Hooks answers_hooks();
  /// The job as this node knows it: its own part is the only node in it.
  ask::JobStatus status() const;
  bool runs_workers() const;

  JobSpec job_;  // with the master's settings, which hold for every node
  const std::string host_name_;
  boost::asio::io_context io_{1};
  launcher::Output output_;
  launcher::SignalReader signals_;
  MasterConnection master_;
  Machine machine_;
  NodeWorkers workers_;
  JobReporter reporter_;
  WaitReporter wait_reporter_;
  AsyncJobs disk_;
  rendezvous::Layout layout_;  // of the last round of this node
  int restarts_ = 0;           // the highest count that the master sent
  BootClock::time_point lease_end_ = BootClock::time_point::max();
  std::string master_name_;  // as the last master said
  bool was_member_ = false;
  bool hosted_round_ = false;  // the master of its last round was elected, and in this process
  bool sample_first_ = false;  // sample the workers before they are stopped
  bool hung_ = false;          // --hang_timeout has ended its last round
  bool round_failed_ = false;  // a hang, a worker or a node has ended its last round
  bool interrupted_by_key_ = false;           // by Ctrl-C, which goes to whole process groups
  std::optional<rendezvous::Failed> failed_;  // how the job ended
  std::deque<Event> queued_events_;           // came while another one was handled
  bool handling_event_ = false;
  std::optional<Outcome> outcome_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Answers answers_;
  StackAnswers stacks_;
  DeadlineWatch deadline_;
};

}  // namespace ddprun::agent
