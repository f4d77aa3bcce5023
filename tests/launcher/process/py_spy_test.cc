// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/py_spy.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kEnough{1};

/// A folder with this script as py-spy, and a process whose executable is called python3.
class FakePython {
 public:
  explicit FakePython(const std::string& script) {
    std::string name = (fs::temp_directory_path() / "ddprun-py-spy-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(folder_ / "py-spy") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "py-spy", fs::perms::owner_all);
    fs::copy_file("/bin/sleep", folder_ / "python3");
    pid_ = fork();
    if (pid_ == 0) execl((folder_ / "python3").c_str(), "python3", "600", nullptr);
    while (fs::read_symlink("/proc/" + std::to_string(pid_) + "/exe").filename() != "python3") {
      usleep(1'000);
    }
  }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;
  ~FakePython() {
    end();
    fs::remove_all(folder_);
  }

  void end() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  std::string program() const { return folder_ / "python3"; }
  std::string py_spy() const { return folder_ / "py-spy"; }

 private:
  fs::path folder_;
  pid_t pid_ = 0;
};

TEST_CASE("py-spy is found beside the interpreter") {
  const FakePython python("exit 1");
  CHECK(find_py_spy(python.program()) == python.py_spy());
  CHECK(find_py_spy("/no/such/folder/python3") != python.py_spy());
  CHECK(find_py_spy(fs::path(python.py_spy()).parent_path() / "run.sh") != python.py_spy());
}

TEST_CASE("py-spy is asked for the processes that run Python") {
  const FakePython python("echo \"$*\"");
  const auto dumps = py_spy_dumps(python.py_spy(), {python.pid(), getpid()}, kEnough);
  REQUIRE(dumps.size() == 1);
  CHECK(dumps.at(python.pid()) ==
        "dump --nonblocking --json --pid " + std::to_string(python.pid()) + "\n");
}

TEST_CASE("a py-spy that is slow, or writes without end, is killed and reaped") {
  FakePython slow("exec sleep 600");
  CHECK(py_spy_dumps(slow.py_spy(), {slow.pid()}, std::chrono::milliseconds(10)).empty());
  FakePython endless("exec cat /dev/zero");
  CHECK(py_spy_dumps(endless.py_spy(), {endless.pid()}, kEnough).empty());
  CHECK(py_spy_dumps("/no/such/py-spy", {slow.pid()}, kEnough).empty());
  slow.end();
  endless.end();
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

}  // namespace
}  // namespace ddprun::launcher
