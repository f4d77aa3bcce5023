// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/log_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/stat.h>

#include "launcher/output/attempt_logs.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using launcher::AttemptFiles;
using launcher::LogDir;
namespace fs = std::filesystem;

namespace {

/// A directory that is $TMPDIR during its lifetime.
class Tmpdir {
 public:
  Tmpdir() {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
    const char* before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    setenv("TMPDIR", path_.c_str(), 1);
  }
  Tmpdir(const Tmpdir&) = delete;
  ~Tmpdir() {
    before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR");
    fs::remove_all(path_);
  }
  fs::path operator/(const std::string& name) const { return path_ / fs::path(name); }
  bool empty() const { return fs::is_empty(path_); }

 private:
  std::string path_ = (fs::temp_directory_path() / "ddprun-test-XXXXXX").string();
  std::optional<std::string> before_;
};

std::ptrdiff_t entries(const fs::path& directory) {
  return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

/// Begins an attempt, and creates the directories of its files if it has any.
AttemptFiles begin_attempt(LogDir& logs, int round, int local_size) {
  AttemptFiles files = logs.begin_attempt(round);
  if (files.has_directories()) must(files.make_directories(local_size));
  return files;
}

/// The error file of local rank 0 in the first attempt of a job with this id.
fs::path first_error_file(const fs::path& root, const std::string& run_id) {
  LogDir logs;
  must(logs.open(root.string(), run_id, false));
  return begin_attempt(logs, 0, 1).error_file(0);
}

void write(const fs::path& file) {
  std::ofstream(file) << "{}";
  REQUIRE(fs::exists(file));
}

}  // namespace

TEST_CASE("error files are in torchrun's layout, in directories created with their parents") {
  const Tmpdir scratch;
  LogDir logs;
  must(logs.open((scratch / "a/b").string(), "job-7", false));
  const AttemptFiles files = begin_attempt(logs, 0, 12);
  const fs::path file = files.error_file(11);
  CHECK(file.filename() == "error.json");
  CHECK(file.parent_path() == files.folder(11));
  CHECK(file.parent_path().filename() == "11");
  CHECK(file.parent_path().parent_path().filename() == "attempt_0");
  const fs::path run = file.parent_path().parent_path().parent_path();
  CHECK(run.parent_path() == scratch / "a/b");
  CHECK(run.filename().string().starts_with("job-7_"));
  CHECK(fs::is_directory(file.parent_path()));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("no attempt touches the files of an earlier one") {
  const Tmpdir scratch;
  LogDir logs;
  must(logs.open((scratch / "logs").string(), "none", false));
  const fs::path earlier = begin_attempt(logs, 2, 1).error_file(0);
  write(earlier);
  const fs::path later = begin_attempt(logs, 2, 1).error_file(0);

  CHECK(earlier.parent_path().parent_path().filename() == "attempt_2");
  CHECK(later.parent_path().parent_path().filename() == "attempt_3");
  CHECK(fs::exists(earlier));
  CHECK_FALSE(fs::exists(later));
}

TEST_CASE("two jobs with one name have separate directories, which are kept") {
  const Tmpdir scratch;
  const fs::path one = first_error_file(scratch / "logs", "same");
  const fs::path other = first_error_file(scratch / "logs", "same");

  CHECK(one != other);
  CHECK(fs::is_directory(one.parent_path()));
}

TEST_CASE("a job's name cannot escape from the log directory") {
  const Tmpdir scratch;
  const std::string run_id = GENERATE(as<std::string>(), "..", ".", "/", "../../etc", "/etc/x",
                                      ".hidden", std::string(256, 'x'));
  CAPTURE(run_id);
  const fs::path file = first_error_file(scratch / "logs", run_id);

  const fs::path run = fs::canonical(file.parent_path().parent_path().parent_path());
  CHECK(run.parent_path() == fs::canonical(scratch / "logs"));
  CHECK_FALSE(run.filename().string().starts_with('.'));
}

TEST_CASE("a long name is cut between its characters") {
  const Tmpdir scratch;
  std::string run_id = "x";
  for (int i = 0; i < 120; ++i) run_id += "\u00e4";
  const fs::path file = first_error_file(scratch / "logs", run_id);

  const std::string name = file.parent_path().parent_path().parent_path().filename();
  CHECK(name.substr(0, name.size() - 7) == run_id.substr(0, 199));
}

TEST_CASE("a relative directory does not depend on a worker's current directory") {
  const Tmpdir scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch / "");
  const fs::path file = first_error_file("here", "none");
  fs::current_path(before);

  CHECK(file.is_absolute());
  CHECK(fs::is_directory(file.parent_path()));
}

TEST_CASE("an impossible log directory is refused with its name") {
  const Tmpdir scratch;
  write(scratch / "file");
  const std::string name = GENERATE(as<std::string>(), "file", "file/below", "/proc/nothing/here");
  const std::string root = (scratch / name).string();
  LogDir logs;
  const Result<> opened = logs.open(root, "none", false);

  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == Errc::usage);
  CHECK(opened.error().message.starts_with("--log_dir " + root + ": "));
  CHECK(opened.error().message.find('\n') == std::string::npos);
}

TEST_CASE("/dev/null means no files") {
  const Tmpdir scratch;
  LogDir logs;
  must(logs.open("/dev/null", "none", false));
  const AttemptFiles files = begin_attempt(logs, 0, 2);

  CHECK(files.error_file(1).empty());
  CHECK(files.folder(1).empty());
  CHECK(files.log_file(1, AttemptFiles::Stream::out) == "/dev/null");
  CHECK(files.filtered_file(AttemptFiles::Stream::err) == "/dev/null");
  CHECK(scratch.empty());
}

TEST_CASE("without a log directory error files are in a temporary one, which is removed") {
  const Tmpdir scratch;
  {
    LogDir logs;
    must(logs.open("", "none", false));
    const AttemptFiles first = begin_attempt(logs, 0, 2);
    write(first.error_file(0));
    write(first.error_file(1));
    const AttemptFiles second = begin_attempt(logs, 1, 2);
    CHECK_FALSE(fs::exists(second.error_file(0)));
    write(second.error_file(0));
    CHECK(entries(scratch / "") == 1);
    fs::create_directories(fs::path(second.error_file(1)).parent_path() / "of a worker/deep");
  }
  CHECK(scratch.empty());
}

TEST_CASE("log files without a log directory are in a temporary one, which is kept") {
  const Tmpdir scratch;
  std::string file;
  {
    LogDir logs;
    must(logs.open("", "a/b", true));
    const AttemptFiles files = begin_attempt(logs, 0, 11);
    file = files.log_file(10, AttemptFiles::Stream::err);
    CHECK(file == logs.path() + "/attempt_0/10/stderr.log");
    CHECK(files.error_file(10) == logs.path() + "/attempt_0/10/error.json");
    CHECK(files.filtered_file(AttemptFiles::Stream::out) ==
          logs.path() + "/attempt_0/filtered_stdout.log");
    CHECK(logs.path().starts_with((scratch / "ddprun_a_b_").string()));
    write(file);
  }
  CHECK(fs::exists(file));
}

TEST_CASE("a TMPDIR that does not exist is ignored") {
  const Tmpdir scratch;
  setenv("TMPDIR", (scratch / "missing").c_str(), 1);
  LogDir logs;
  must(logs.open("", "none", false));

  CHECK(fs::is_directory(fs::path(begin_attempt(logs, 0, 1).error_file(0)).parent_path()));
}

TEST_CASE("only the user may access directories of log and error files") {
  const Tmpdir scratch;
  const mode_t usual = umask(0);
  for (const bool with_logs : {true, false}) {
    LogDir logs;
    must(logs.open("", "none", with_logs));
    const auto own = fs::path(begin_attempt(logs, 0, 1).error_file(0)).parent_path();
    CHECK(fs::status(own).permissions() == fs::perms::owner_all);
    CHECK(fs::status(logs.path()).permissions() == fs::perms::owner_all);
  }
  umask(usual);
}

TEST_CASE("an attempt whose directories cannot be created has no files, with a warning") {
  const Tmpdir scratch;
  LogDir logs;
  must(logs.open((scratch / "logs").string(), "none", true));
  fs::remove_all(scratch / "logs");
  launcher::LogSpec everything;
  everything.tees.others = launcher::StreamMasks::kBoth;
  const auto sinks = launcher::open_sinks(everything, logs.begin_attempt(0), 2);

  CHECK(sinks.files.error_file(0).empty());
  REQUIRE(sinks.workers.size() == 2);
  CHECK(sinks.workers[1][0].shown);
  CHECK(sinks.workers[1][0].file == nullptr);
  REQUIRE(sinks.warnings.size() == 1);
  CHECK(sinks.warnings[0].ends_with(": no log or error files for this round"));
}
