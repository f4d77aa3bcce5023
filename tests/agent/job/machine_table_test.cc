// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/job/machine.h"
#include "tests/agent/job/machines.h"
#include "tests/catch.h"
#include "tests/comment_table.h"
#include "tests/paths.h"

using namespace ddprun;
using namespace ddprun::agent;
using tests::source_path;
using State = Machine::State;

namespace {

// Compares the table of agent/job/machine.h with the code: Expectation applies each cell to the
// View of the machine before the event, and the test compares the result with Machine's.

/// The state of a machine as seen from outside: copies of it show it.
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

/// Whether the machine knows that its round was broken for good.
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
      return view;  // ends_job changes nothing any more
    }
  }
  if (machine.state() != State::joining) view.ends_job = ends_job(machine);
  return view;
}

/// An event, and the words in a cell for its contents.
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

/// Machines in the state of this name: several if their past makes a difference.
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

/// The result of a cell of the table for a machine that looks like `before`.
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
    after.ends_job = false;  // it changes nothing any more
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

  const CommentTable table = read_comment_table(source_path("agent/job/machine.h"));
  CHECK(row_names(table) == rows);
  std::vector<std::string> states;
  for (const auto& [state, name] : kStates) states.push_back(name);
  CHECK(kStates.size() == static_cast<size_t>(State::done) + 1);
  states.pop_back();
  CHECK(table.columns == states);
}

TEST_CASE("the machine does what each cell of the table in machine.h says") {
  const CommentTable table = read_comment_table(source_path("agent/job/machine.h"));
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      check_cell(row.name, table.columns.at(i), row.cells[i]);
    }
    check_cell(row.name, "done", "-");
  }
}
