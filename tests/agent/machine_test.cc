// SPDX-License-Identifier: Apache-2.0
#include "agent/machine.h"

#include <csignal>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/comment_table.h"

using namespace ddprun;
using namespace ddprun::agent;
using State = Machine::State;

namespace {

/// The actions are of these types, in this order, and no more.
template <class... Expected>
void check(const Actions& actions) {
  REQUIRE(actions.size() == sizeof...(Expected));
  size_t i = 0;
  const bool as_expected = (std::holds_alternative<Expected>(actions[i++]) && ...);
  CHECK(as_expected);
}

template <class T>
const T& only(const Actions& actions) {
  REQUIRE(actions.size() == 1);
  REQUIRE(std::holds_alternative<T>(actions[0]));
  return std::get<T>(actions[0]);
}

Machine running() {
  Machine m;
  check<action::Join>(m.start());
  check<action::StartWorkers>(m.on(event::RoundReady{}));
  return m;
}

Machine draining() {
  Machine m = running();
  check<action::ReportSuccess>(m.on(event::WorkersEnded{}));
  return m;
}

event::WorkerFailed rank_fails(int rank) {
  rendezvous::Failure failure;
  failure.rank = rank;
  return {failure};
}

event::JobClosed closed_with(int code) {
  return {JobFailed{code}};
}

// The table of agent/machine.h, held against the code: each cell is carried out by Expectation on
// what the machine looked like before the event, and compared with what Machine did.

/// The state of a machine as seen from outside, by asking copies of it.
struct View {
  std::string state;
  std::string ending;  ///< empty: none
  bool ends_job = false;

  bool operator==(const View&) const = default;
};

std::ostream& operator<<(std::ostream& out, const View& view) {
  return out << view.state << ", ending '" << view.ending << "', ends_job " << view.ends_job;
}

const std::vector<std::pair<State, std::string>> kStates = {{State::joining, "joining"},
                                                            {State::running, "running"},
                                                            {State::stopping, "stopping"},
                                                            {State::draining, "draining"},
                                                            {State::done, "done"}};

std::string name_of(State state) {
  for (const auto& [known, name] : kStates) {
    if (known == state) return name;
  }
  return "unnamed state";
}

std::string text_of(const Outcome& outcome) {
  if (const auto* failed = std::get_if<JobFailed>(&outcome)) {
    return "code " + std::to_string(failed->code);
  }
  if (const auto* error = std::get_if<Error>(&outcome)) return error->message;
  if (std::holds_alternative<Interrupted>(outcome)) return "interrupted";
  return "succeeded";
}

/// Whether the machine of this state knows that its round was broken for good.
bool ends_job(Machine machine) {
  if (machine.state() == State::joining) machine.on(event::RoundReady{});
  if (machine.state() == State::running) machine.on(rank_fails(0));
  if (machine.state() != State::stopping) return false;
  const Actions actions = machine.on(event::StopRequested{SIGTERM});
  return !std::holds_alternative<action::Leave>(actions.at(0));
}

View view_of(const Machine& machine) {
  View view{name_of(machine.state()), "", false};
  if (machine.state() == State::stopping) {
    Machine copy = machine;
    const Actions last = copy.on(event::WorkersEnded{});
    if (const auto* finish = std::get_if<action::Finish>(&last.at(0))) {
      view.ending = text_of(finish->outcome);
      return view;  // ends_job makes no difference any more
    }
  }
  if (machine.state() != State::joining) view.ends_job = ends_job(machine);
  return view;
}

/// One event as it is sent, with the words that a cell has for what it brings.
struct SampleEvent {
  std::string row;
  Event event;
  std::string it;         ///< text of its error or outcome
  bool ends_job = false;  ///< of RoundBroken
};

const std::vector<SampleEvent>& sample_events() {
  static const std::vector<SampleEvent> all = {
      {"RoundReady", event::RoundReady{}, ""},
      {"StartFailed", event::StartFailed{Error{Errc::not_executable, "cannot start"}}, ""},
      {"WorkerFailed", rank_fails(1), ""},
      {"WorkersEnded", event::WorkersEnded{}, ""},
      {"RoundBroken", event::RoundBroken{false}, "", false},
      {"RoundBroken", event::RoundBroken{true}, "", true},
      {"JobClosed", closed_with(3), "code 3"},
      {"LeaseOver", event::LeaseOver{}, ""},
      {"StopRequested", event::StopRequested{SIGINT, false}, ""},
      {"StopRequested, at once", event::StopRequested{SIGINT, true}, ""},
  };
  return all;
}

/// Machines in the state of that name: several where the past makes a difference.
std::vector<Machine> machines_in(const std::string& state) {
  Machine joining, rejoining = running(), stopping = running(), ending = running(),
                   ends_job = running(), done = draining();
  joining.start();
  rejoining.on(event::RoundBroken{true});
  rejoining.on(event::WorkersEnded{});
  stopping.on(rank_fails(0));
  ending.on(closed_with(7));
  ends_job.on(event::RoundBroken{true});
  done.on(event::JobClosed{JobSucceeded{}});
  if (state == "joining") return {joining, rejoining};
  if (state == "running") return {running()};
  if (state == "stopping") return {stopping, ending, ends_job};
  if (state == "draining") return {draining()};
  if (state == "done") return {done};
  return {};
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// The cell of the table for a machine that looks like `before`.
struct Expectation {
  View after;
  std::vector<std::string> actions;

  Expectation(const View& before, const SampleEvent& event, std::string cell) : after(before) {
    const auto choice = split(cell, " ? ");
    if (choice.size() == 2) {
      const auto branches = split(choice[1], " : ");
      REQUIRE(branches.size() == 2);
      cell = branches[holds(before, choice[0]) ? 0 : 1];
    }
    if (cell == "-" || cell.starts_with("- (")) return;
    for (const std::string& statement : split(cell, "; ")) apply(statement, before, event);
    if (after.state == "joining" || after.state == "done") after.ends_job = false;  // not seen
    if (after.state == "done") after.ending.clear();
  }

 private:
  static bool holds(const View& before, const std::string& condition) {
    if (condition == "ending") return !before.ending.empty();
    if (condition == "ending or ends_job") return !before.ending.empty() || before.ends_job;
    FAIL("unknown condition: " << condition);
    return false;
  }

  void apply(const std::string& statement, const View& before, const SampleEvent& event) {
    if (statement.starts_with("> ")) {
      after.state = statement.substr(2);
    } else if (statement == "ending = it") {
      set_ending(event.it);
    } else if (statement == "ending = interrupted") {
      set_ending("interrupted");
    } else if (statement == "ends_job = its") {
      after.ends_job = after.ending.empty() && event.ends_job;
    } else if (statement == "ends_job = no") {
      after.ends_job = false;
    } else {
      for (std::string action : split(statement, ", ")) {
        if (action == "Finish(it)") action = "Finish(" + event.it + ")";
        if (action == "Finish(ending)") action = "Finish(" + before.ending + ")";
        actions.push_back(action);
      }
    }
  }

  void set_ending(const std::string& ending) {
    after.ending = ending;
    after.ends_job = false;  // makes no difference any more
  }
};

std::string stop_text(int signal) {
  return signal == SIGTERM   ? "StopWorkers(TERM)"
         : signal == SIGKILL ? "StopWorkers(KILL)"
                             : "StopWorkers(its signal)";
}

std::vector<std::string> texts_of(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions) {
    if (std::holds_alternative<action::Join>(action)) texts.push_back("Join");
    if (std::holds_alternative<action::StartWorkers>(action)) texts.push_back("StartWorkers");
    if (std::holds_alternative<action::ReportFailure>(action)) texts.push_back("ReportFailure");
    if (std::holds_alternative<action::ReportStartFailure>(action)) {
      texts.push_back("ReportStartFailure");
    }
    if (std::holds_alternative<action::ReportSuccess>(action)) texts.push_back("ReportSuccess");
    if (std::holds_alternative<action::Leave>(action)) texts.push_back("Leave");
    if (const auto* stop = std::get_if<action::StopWorkers>(&action)) {
      texts.push_back(stop_text(stop->signal));
    }
    if (const auto* finish = std::get_if<action::Finish>(&action)) {
      texts.push_back("Finish(" + text_of(finish->outcome) + ")");
    }
  }
  return texts;
}

void check_cell(const std::string& row, const std::string& state, const std::string& cell) {
  INFO("cell of " << row << " while " << state << ": " << cell);
  CHECK_FALSE(cell.empty());
  for (const SampleEvent& event : sample_events()) {
    if (event.row != row) continue;
    for (Machine machine : machines_in(state)) {
      const View before = view_of(machine);
      const Expectation expected(before, event, cell);
      const Actions actions = machine.on(event.event);
      INFO("before: " << before);
      CHECK(texts_of(actions) == expected.actions);
      CHECK(view_of(machine) == expected.after);
    }
  }
}

std::set<std::string> row_names(const CommentTable& table) {
  std::set<std::string> names;
  for (const auto& row : table.rows) names.insert(row.name);
  return names;
}

}  // namespace

TEST_CASE("the table in machine.h has a row for each event and a column for each state but done") {
  std::set<size_t> events;
  std::set<std::string> rows;
  for (const SampleEvent& event : sample_events()) {
    events.insert(event.event.index());
    rows.insert(event.row);
  }
  CHECK(events.size() == std::variant_size_v<Event>);  // else sample_events() lacks one

  const CommentTable table = read_comment_table(DDPRUN_MACHINE_H);
  CHECK(row_names(table) == rows);
  std::vector<std::string> states;
  for (const auto& [state, name] : kStates) states.push_back(name);
  CHECK(kStates.size() == static_cast<size_t>(State::done) + 1);
  states.pop_back();
  CHECK(table.columns == states);
}

TEST_CASE("the machine does what each cell of the table in machine.h says") {
  const CommentTable table = read_comment_table(DDPRUN_MACHINE_H);
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      check_cell(row.name, table.columns.at(i), row.cells[i]);
    }
    check_cell(row.name, "done", "-");
  }
}

TEST_CASE("a round is joined, run and drained, and the job's end ends the node") {
  Machine m = running();
  check<action::ReportSuccess>(m.on(event::WorkersEnded{}));
  CHECK(m.state() == State::draining);
  const Actions last = m.on(event::JobClosed{JobSucceeded{}});
  CHECK(std::holds_alternative<JobSucceeded>(only<action::Finish>(last).outcome));
  CHECK(m.state() == State::done);
}

TEST_CASE("a failed worker stops its siblings and the node joins again") {
  Machine m = running();
  const Actions actions = m.on(rank_fails(3));
  check<action::ReportFailure, action::StopWorkers>(actions);
  CHECK(std::get<action::ReportFailure>(actions[0]).failure.rank == 3);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGTERM);
  check<>(m.on(rank_fails(2)));  // a sibling that was stopped
  check<action::Join>(m.on(event::WorkersEnded{}));
  CHECK(m.state() == State::joining);
}

TEST_CASE("a failure after which the job is closed ends with the root cause's code") {
  Machine m = running();
  m.on(rank_fails(0));
  check<>(m.on(closed_with(139)));
  check<>(m.on(closed_with(1)));  // the first outcome counts
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 139);
}

TEST_CASE("another node's failure stops the workers and the node joins again") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::RoundBroken{})).signal == SIGTERM);
  check<action::Join>(m.on(event::WorkersEnded{}));
}

TEST_CASE("a job closed elsewhere stops the workers before the node ends") {
  Machine m = running();
  check<action::StopWorkers>(m.on(closed_with(3)));
  CHECK(m.state() == State::stopping);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 3);
}

TEST_CASE("a signal reaches the workers unchanged and ends the node when they are gone") {
  Machine m = running();
  const Actions actions = m.on(event::StopRequested{SIGINT});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGINT);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGINT);
}

TEST_CASE("a second signal kills at once and the first one is the outcome") {
  Machine m = running();
  m.on(event::StopRequested{SIGTERM});
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGINT})).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a first signal while workers stop for a restart prevents the restart") {
  Machine m = running();
  m.on(rank_fails(1));
  check<action::Leave>(m.on(event::StopRequested{SIGTERM}));
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a request to stop at once kills the workers, and its signal is the outcome") {
  Machine m = running();
  const Actions actions = m.on(event::StopRequested{SIGTERM, true});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a request to stop at once kills workers that stop for a restart") {
  Machine m = running();
  m.on(rank_fails(1));
  const Actions actions = m.on(event::StopRequested{SIGTERM, true});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGKILL);
}

TEST_CASE("a signal while workers stop for the job's end hurries them and keeps that end") {
  Machine m = running();
  m.on(rank_fails(1));
  m.on(closed_with(7));
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGINT})).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 7);
}

TEST_CASE("a signal before any worker runs leaves the rendezvous and ends") {
  Machine m;
  m.start();
  const Actions actions = m.on(event::StopRequested{SIGHUP});
  check<action::Leave, action::Finish>(actions);
  CHECK(m.state() == State::done);
}

TEST_CASE("a finished node joins again when another node's failure needs it") {
  Machine m = draining();
  check<action::Join>(m.on(event::RoundBroken{}));
  check<action::StartWorkers>(m.on(event::RoundReady{}));
}

TEST_CASE("a finished node that gets a signal leaves") {
  Machine m = draining();
  check<action::Leave, action::Finish>(m.on(event::StopRequested{SIGTERM}));
}

TEST_CASE("a worker that cannot be started is reported as a failure, and the node joins again") {
  Machine m = running();
  const Actions actions =
      m.on(event::StartFailed{Error{Errc::not_executable, "cannot execute ./train"}, 2});
  check<action::ReportStartFailure, action::StopWorkers>(actions);
  const auto& report = std::get<action::ReportStartFailure>(actions[0]);
  CHECK(report.error.code == Errc::not_executable);
  CHECK(report.local_rank == 2);
  check<>(m.on(event::StartFailed{Error{Errc::not_executable, "cannot execute ./train"}, 3}));
  check<action::Join>(m.on(event::WorkersEnded{}));
}

TEST_CASE("a job that closes before its first round ends the node") {
  Machine m;
  m.start();
  const Actions last = m.on(event::JobClosed{Error{Errc::timed_out, "too few nodes joined"}});
  CHECK(std::get<Error>(only<action::Finish>(last).outcome).code == Errc::timed_out);
}

TEST_CASE("a lease that is over kills the workers at once and the node joins again") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::LeaseOver{})).signal == SIGKILL);
  CHECK(m.state() == State::stopping);
  check<>(m.on(event::RoundBroken{}));  // the master came back and had gone on
  check<action::Join>(m.on(event::WorkersEnded{}));
  check<action::StartWorkers>(m.on(event::RoundReady{}));
}

TEST_CASE("a lease that is over while workers stop takes the rest of their grace") {
  Machine m = running();
  m.on(rank_fails(1));
  CHECK(only<action::StopWorkers>(m.on(event::LeaseOver{})).signal == SIGKILL);
  check<action::Join>(m.on(event::WorkersEnded{}));

  Machine leaving = running();
  leaving.on(event::StopRequested{SIGTERM});
  CHECK(only<action::StopWorkers>(leaving.on(event::LeaseOver{})).signal == SIGKILL);
  const Actions last = leaving.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a lease that is over where nothing runs changes nothing") {
  Machine joining;
  joining.start();
  check<>(joining.on(event::LeaseOver{}));
  CHECK(joining.state() == State::joining);

  Machine drained = draining();
  check<>(drained.on(event::LeaseOver{}));
  check<action::Join>(drained.on(event::RoundBroken{}));

  Machine done = draining();
  done.on(event::JobClosed{JobSucceeded{}});
  check<>(done.on(event::LeaseOver{}));
  CHECK(done.state() == State::done);
}

TEST_CASE(
    "a round that is broken for good stops the workers and the node joins to get the outcome") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::RoundBroken{true})).signal == SIGTERM);
  check<action::Join>(m.on(event::WorkersEnded{}));
  const Actions last = m.on(closed_with(139));
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 139);
}

TEST_CASE("a signal after the round broke for good hurries the workers and keeps the job's end") {
  const bool failed_here = GENERATE(false, true);
  Machine m = running();
  if (failed_here) m.on(rank_fails(2));
  m.on(event::RoundBroken{true});
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGTERM})).signal == SIGKILL);
  check<action::Join>(m.on(event::WorkersEnded{}));
  const Actions last = m.on(closed_with(3));
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 3);
}

TEST_CASE("a signal while the node waits for the job's outcome still ends it") {
  Machine m = running();
  m.on(event::RoundBroken{true});
  m.on(event::WorkersEnded{});
  const Actions actions = m.on(event::StopRequested{SIGTERM});
  check<action::Leave, action::Finish>(actions);
  CHECK(std::get<Interrupted>(std::get<action::Finish>(actions[1]).outcome).signal == SIGTERM);
}

TEST_CASE("a round that broke for good does not outlast the next one") {
  Machine m = running();
  m.on(event::RoundBroken{true});
  m.on(event::WorkersEnded{});
  m.on(event::RoundReady{});  // of a master that was restarted and does not know
  m.on(rank_fails(0));
  check<action::Leave>(m.on(event::StopRequested{SIGTERM}));
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("events that a state ignores change nothing") {
  Machine joining;
  joining.start();
  check<>(joining.on(event::RoundBroken{}));
  check<>(joining.on(event::WorkersEnded{}));
  CHECK(joining.state() == State::joining);

  Machine drained = draining();
  check<>(drained.on(rank_fails(0)));
  CHECK(drained.state() == State::draining);

  Machine done = draining();
  done.on(event::JobClosed{JobSucceeded{}});
  check<>(done.on(event::StopRequested{SIGTERM}));
  check<>(done.on(event::RoundReady{}));
  CHECK(done.state() == State::done);
}
