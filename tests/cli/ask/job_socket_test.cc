// SPDX-License-Identifier: Apache-2.0
#include "cli/ask/job_socket.h"

#include "cli/ask/verbs.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::cli;

namespace {

RunningJob running_job(const std::string& name, int pid, const std::string& session) {
  RunningJob running;
  running.socket = {"/run/" + name, pid};
  running.status.job = name;
  running.status.session = session;
  return running;
}

std::string refused_choice(const std::vector<RunningJob>& jobs, const std::string& name) {
  const Result<RunningJob> chosen = choose_job(jobs, name);
  REQUIRE(!chosen);
  CHECK(chosen.error().code == Errc::usage);
  return chosen.error().message;
}

}  // namespace

TEST_CASE("job socket: an id or a pid chooses a job, and the only job needs neither") {
  CHECK(must(choose_job({running_job("a", 1, "x")}, "")).socket.pid == 1);
  const std::vector<RunningJob> jobs = {running_job("a", 1, "x"), running_job("b", 2, "y"),
                                        running_job("2", 3, "z")};
  CHECK(must(choose_job(jobs, "b")).socket.pid == 2);
  CHECK(must(choose_job(jobs, "3")).socket.pid == 3);
  CHECK(tests::contains(refused_choice(jobs, "2"),
                        "several jobs run here: give the pid of one: 2 (b), 3"));
  CHECK(refused_choice(jobs, "c") == "no job 'c' runs here; there is 1 (a), 2 (b), 3 (2)");
  CHECK(tests::contains(refused_choice(jobs, ""), "1 (a), 2 (b), 3 (2)"));
  CHECK(refused_choice({}, "") ==
        "no job of this user runs on this host: run this on a host of the job");
}

TEST_CASE("job socket: several ddpruns of one session count as one job") {
  const std::vector<RunningJob> nodes = {running_job("a", 1, "x"), running_job("a", 2, "x")};
  CHECK(must(choose_job(nodes, "")).socket.pid == 1);
  CHECK(must(choose_job(nodes, "2")).socket.pid == 2);
  CHECK(refused_choice(nodes, "b") == "no job 'b' runs here; there is 1 (a)");
  const std::vector<RunningJob> others = {running_job("a", 1, ""), running_job("a", 2, "")};
  refused_choice(others, "a");  // before they join, they may be of different jobs
}

TEST_CASE("job socket: a question fails if no process listens") {
  const auto answer = ask_socket("/tmp/none.1.sock", "GET", "/", std::chrono::seconds(30));
  REQUIRE(!answer);
  CHECK(answer.error().code == Errc::closed);
  CHECK(!ask_socket(std::string(200, 'x'), "GET", "/", std::chrono::seconds(30)));
}

TEST_CASE("verbs: only the first word decides") {
  const auto verb = [](std::vector<std::string> words) { return is_verb(words); };
  CHECK(verb({"ls"}));
  CHECK(verb({"status", "train-7"}));
  CHECK(verb({"stop"}));
  CHECK_FALSE(verb({}));
  CHECK_FALSE(verb({"./ls"}));
  CHECK_FALSE(verb({"--", "ls"}));
  CHECK_FALSE(verb({"--nproc_per_node", "2", "status"}));
  CHECK_FALSE(verb({"serve"}));
}
