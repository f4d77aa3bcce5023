// SPDX-License-Identifier: Apache-2.0
#include "agent/job/job_spec.h"
#include "tests/catch.h"

namespace ddprun::agent {
namespace {

JobSpec job_of(std::vector<std::string> command, std::size_t own_arguments = 1) {
  JobSpec job;
  job.command = std::move(command);
  job.own_arguments = own_arguments;
  return job;
}

TEST_CASE("the command of a job is what the user wrote, not the path of python") {
  const JobSpec script = job_of({"/opt/a/python3", "-u", "train.py", "--lr", "1"}, 3);
  CHECK(command_text(script) == "train.py --lr 1");
  CHECK(command_hash(script) == command_hash(job_of({"train.py", "--lr", "1"})));
  CHECK(command_text(job_of({})).empty());
}

TEST_CASE("a job without an id has the name of its program") {
  JobSpec job = job_of({"/opt/a/python3", "-u", "/home/me/train.py", "--lr", "1"}, 3);
  CHECK(job_name(job) == "train.py");
  job.run_id = "lr-1";
  CHECK(job_name(job) == "lr-1");
  CHECK(job_name(job_of({"/opt/a/python3", "-u", "-m", "my.train"}, 4)) == "my.train");
  CHECK(job_name(job_of({"./a\nb\x1b"})) == "a b\\x1b");
  CHECK(job_name(job_of({})) == "none");
}

TEST_CASE("commands differ if any of their words differs") {
  const auto hash = command_hash(job_of({"./train", "--lr", "1"}));
  CHECK(hash < 1ULL << 53);
  CHECK(hash == command_hash(job_of({"./train", "--lr", "1"})));
  CHECK(hash != command_hash(job_of({"./train", "--lr", "2"})));
  CHECK(hash != command_hash(job_of({"./train", "--lr1"})));
  CHECK(hash != command_hash(job_of({"./train", "--lr", "1", ""})));
  CHECK(hash != command_hash(job_of({"./train", "--lr 1"})));
}

TEST_CASE("a long command is cut, and stays on one line") {
  const std::string text = command_text(job_of({"sh", "-c", "a\nb\x1b" + std::string(500, 'x')}));
  CHECK(text.starts_with("sh -c a b\\x1bxxx"));
  CHECK(text.size() < 250);
}

}  // namespace
}  // namespace ddprun::agent
