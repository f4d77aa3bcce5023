// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/flight_recorder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

/// A path in an empty folder that goes with the test.
class RecorderFolder {
 public:
  ~RecorderFolder() { std::filesystem::remove_all(parent_); }
  std::string path() const { return parent_ + "/recorder"; }

 private:
  static std::string make() {
    std::string name = "/tmp/ddprun-recorder-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
  const std::string parent_ = make();
};

JobSpec python_job() {
  JobSpec job;
  job.program = "/usr/bin/python3";
  return job;
}

TEST_CASE(
    "Python's workers get a folder in front of their PYTHONPATH, which goes with the recorder") {
  const RecorderFolder folder;
  {
    FlightRecorder recorder;
    recorder.open(python_job(), {"PYTHONPATH=/a:/b"}, folder.path());
    CHECK(recorder.variables() ==
          std::vector<std::string>{"PYTHONPATH=" + folder.path() + ":/a:/b",
                                   "DDPRUN_RECORDER_FOLDER=" + folder.path()});
    CHECK(std::filesystem::file_size(folder.path() + "/sitecustomize.py") > 1'000);
    CHECK(recorder.socket_of(3) == folder.path() + "/3");
    recorder.begin(2, 2);
    std::ofstream(recorder.file_of(3)) << "[]";
    recorder.begin(0, 2);
    CHECK_FALSE(std::filesystem::exists(recorder.file_of(3)));
    std::filesystem::create_directory(folder.path() + "/__pycache__");
    std::ofstream(folder.path() + "/__pycache__/sitecustomize.pyc") << "";
  }
  CHECK_FALSE(std::filesystem::exists(folder.path()));
}

TEST_CASE("other programs, and jobs that want no recorder, find their environment as it is") {
  const RecorderFolder folder;
  JobSpec job = python_job();
  job.program = "/bin/sh";
  FlightRecorder of_shell;
  of_shell.open(job, {}, folder.path());
  job = python_job();
  job.flight_recorder = false;
  FlightRecorder off;
  off.open(job, {}, folder.path());
  FlightRecorder without_folder;
  without_folder.open(python_job(), {}, folder.path() + "/no/folder");
  for (const FlightRecorder* each : {&of_shell, &off, &without_folder}) {
    CHECK(each->variables().empty());
    CHECK(each->socket_of(0).empty());
    CHECK(each->file_of(0).empty());
  }
  CHECK_FALSE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace ddprun::agent
