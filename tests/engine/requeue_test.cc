// SPDX-License-Identifier: Apache-2.0
#include "engine/requeue.h"

#include "tests/catch.h"

namespace ddprun::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::sys_seconds kNow{1'795'443'800s};

RequeueSpec spec() {
  return {"slurm job 42", "42", 3, 1, 12, 90s};
}

JobState running() {
  return {"RUNNING", "None", true, true, false, 1, kNow + 1h};
}

JobState ending(const std::string& reason) {
  return {"COMPLETING", reason, true, true, false, 1, kNow};
}

RequeueDecision decide(const JobState& state, int code = 143, bool lost_host = false) {
  return decide_requeue(spec(), {code, lost_host, kNow}, state);
}

JobState preempted(JobState state) {
  state.preempted = true;
  return state;
}

TEST_CASE("the time limit, a preemption and a lost host requeue a job") {
  JobState nearly_over = running();
  nearly_over.end = kNow + 90s;
  const struct {
    RequeueDecision verdict;
    std::string why;
  } rows[] = {
      {decide(ending("TimeLimit")), "its time limit was reached"},
      {decide(ending("TimeLimit"), 1), "its time limit was reached"},
      {decide({"TIMEOUT", "None", true, true, false, 1, kNow}), "its time limit was reached"},
      {decide(preempted(running())), "it was preempted"},
      {decide(preempted(ending("None"))), "it was preempted"},
      {decide({"PREEMPTED", "None", true, true, false, 1, kNow}), "it was preempted"},
      {decide({"NODE_FAIL", "None", true, true, false, 1, kNow}, 125), "a node has failed"},
      {decide(ending("NodeDown"), 125), "a node has failed"},
      {decide(running(), 125, true), "a host was lost"},
      {decide(nearly_over, 140), "its workers ended because of its time limit"},
  };
  for (const auto& [verdict, why] : rows) {
    INFO(why);
    CHECK(verdict.requeue);
    CHECK(verdict.why == why);
  }
}

TEST_CASE("a success, a failure of the program and a cancelled job are not requeued") {
  constexpr auto kFailed = "neither its time limit nor a preemption nor a lost host ended it";
  constexpr auto kQueued = "Slurm has put it into the queue already";
  JobState later = running();
  later.end = kNow + 91s;
  RequeueSpec without_signal = spec();
  without_signal.deadline_signal = 0;
  const struct {
    RequeueDecision verdict;
    std::string why;
  } rows[] = {
      {decide(ending("TimeLimit"), 0), ""},
      {decide(running(), 1), kFailed},
      {decide(running(), 143), kFailed},
      {decide(later, 140), kFailed},
      {decide_requeue(without_signal, {128, false, kNow}, ending("None")), "it was cancelled"},
      {decide(ending("None")), "it was cancelled"},
      {decide(ending("None"), 125, true), "it was cancelled"},
      {decide({"CANCELLED", "None", true, true, false, 1, kNow}), "it was cancelled"},
      {decide({"COMPLETING", "None", true, true, false, 2, {}}), kQueued},
      {decide({"PENDING", "BeginTime", true, true, true, 2, {}}), kQueued},
      {decide({"COMPLETING", "None", true, true, true, 2, {}}, 125, true), kQueued},
  };
  for (const auto& [verdict, why] : rows) {
    INFO(why);
    CHECK_FALSE(verdict.requeue);
    CHECK(verdict.why == why);
  }
}

TEST_CASE("only a batch job that may be requeued is, and no more often than allowed") {
  JobState state = ending("TimeLimit");
  RequeueSpec often = spec();
  often.so_far = 3;
  CHECK(decide_requeue(often, {143, false, kNow}, state).why ==
        "it was 3 times, and --requeue allows 3");
  CHECK_FALSE(decide_requeue(often, {143, false, kNow}, state).requeue);
  state.may_requeue = false;
  CHECK_FALSE(decide(state).requeue);
  state.is_batch = false;
  CHECK(decide(state).why == "only a batch job can be");
}

TEST_CASE("Slurm's description of a job is parsed") {
  const auto state = parse_job_state(
      "JobId=1 JobName=a Reason JobState=COMPLETING Reason=TimeLimit Dependency=(null) Requeue=1 "
      "Restarts=2 BatchFlag=1 Reboot=0 StartTime=1795443807 EndTime=1795443834 "
      "PreemptEligibleTime=1795443807 PreemptTime=1795443820\n");
  REQUIRE(state);
  CHECK(state->state == "COMPLETING");
  CHECK(state->reason == "TimeLimit");
  CHECK(state->is_batch);
  CHECK(state->may_requeue);
  CHECK(state->preempted);
  CHECK(state->restarts == 2);
  CHECK(state->end == std::chrono::sys_seconds(1'795'443'834s));

  const auto other = parse_job_state("JobState=RUNNING Requeue=0 EndTime=Unknown PreemptTime=None");
  REQUIRE(other);
  CHECK_FALSE(other->is_batch);
  CHECK_FALSE(other->may_requeue);
  CHECK_FALSE(other->preempted);
  CHECK_FALSE(other->end);
  CHECK_FALSE(parse_job_state(""));
  CHECK_FALSE(parse_job_state("slurm_load_jobs error: Invalid job id specified"));
}

}  // namespace
}  // namespace ddprun::engine
