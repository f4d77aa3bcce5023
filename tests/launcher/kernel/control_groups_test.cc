// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/control_groups.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;
using Folders = std::vector<std::string>;

/// A folder in place of /, with a process of pid 7.
struct FakeRoot {
  std::string path;
  FakeRoot() : path((fs::temp_directory_path() / "ddprun-groups-XXXXXX").string()) {
    REQUIRE(mkdtemp(path.data()) != nullptr);
  }
  ~FakeRoot() { fs::remove_all(path); }
  FakeRoot(const FakeRoot&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(path + file).parent_path());
    std::ofstream(path + file) << text;
  }
};

}  // namespace

TEST_CASE("control groups: both versions list a process's group and those above") {
  CHECK(control_groups("0::/job/step\n", "cpu", "/g") == Folders{"/g/job/step", "/g/job", "/g"});
  CHECK(control_groups("4:memory:/m\n3:cpu,cpuacct:/a\n", "cpu", "/g") ==
        Folders{"/g/cpu/a", "/g/cpu"});
  CHECK(control_groups("nothing\n:\n3:cpu\n", "cpu", "/g").empty());
}

TEST_CASE("control groups: the tightest quota of CPU time, and how often it is used up") {
  const FakeRoot two;
  two.write("/proc/7/cgroup", "0::/job/step\n");
  CHECK_FALSE(cpu_quota_of(7, two.path));
  two.write("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  CHECK_FALSE(cpu_quota_of(7, two.path));
  two.write("/sys/fs/cgroup/job/cpu.max", "20000 100000\n");
  two.write("/sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 30\n");
  CHECK(cpu_quota_of(7, two.path).value().cpus == 0.2);
  CHECK(cpu_quota_of(7, two.path).value().throttled == 0.75);
  CHECK_FALSE(cpu_quota_of(8, two.path));

  const FakeRoot one;
  one.write("/proc/7/cgroup", "3:cpu,cpuacct:/slow\n");
  one.write("/sys/fs/cgroup/cpu/slow/cpu.cfs_quota_us", "50000\n");
  one.write("/sys/fs/cgroup/cpu/slow/cpu.cfs_period_us", "100000\n");
  one.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(cpu_quota_of(7, one.path).value().cpus == 0.5);
  CHECK(cpu_quota_of(7, one.path).value().throttled == 0);
}

TEST_CASE("control groups: the process limit that a group, or one above it, has reached") {
  const FakeRoot root;
  root.write("/proc/7/cgroup", "8:pids:/pod/1\n0::/user\n");
  CHECK_FALSE(reached_process_limit(7, root.path));
  root.write("/sys/fs/cgroup/pids/pod/1/pids.max", "max\n");
  root.write("/sys/fs/cgroup/pids/pod/1/pids.current", "9\n");
  root.write("/sys/fs/cgroup/pids/pod/pids.max", "10\n");
  root.write("/sys/fs/cgroup/pids/pod/pids.current", "9\n");
  CHECK_FALSE(reached_process_limit(7, root.path));
  root.write("/sys/fs/cgroup/pids/pod/pids.current", "10\n");
  CHECK(reached_process_limit(7, root.path).value() == 10);
  root.write("/proc/8/cgroup", "0::/user\n");
  CHECK_FALSE(reached_process_limit(8, root.path));
  root.write("/sys/fs/cgroup/user/pids.max", "4\n");
  root.write("/sys/fs/cgroup/user/pids.current", "4\n");
  CHECK(reached_process_limit(8, root.path).value() == 4);
}

TEST_CASE("control groups: a group of either version is frozen if it, or one above it, is") {
  const FakeRoot root;
  root.write("/proc/7/cgroup", "4:freezer:/docker/1\n0::/user\n");
  CHECK_FALSE(is_frozen(7, root.path));
  root.write("/sys/fs/cgroup/freezer/docker/1/freezer.state", "THAWED\n");
  root.write("/sys/fs/cgroup/unified/user/cgroup.events", "populated 1\nfrozen 0\n");
  CHECK_FALSE(is_frozen(7, root.path));
  root.write("/sys/fs/cgroup/freezer/docker/freezer.state", "FROZEN\n");
  CHECK(is_frozen(7, root.path));
  root.write("/proc/8/cgroup", "0::/user\n");
  CHECK_FALSE(is_frozen(8, root.path));
  root.write("/sys/fs/cgroup/unified/user/cgroup.events", "populated 1\nfrozen 1\n");
  CHECK(is_frozen(8, root.path));
  CHECK_FALSE(is_frozen(9, root.path));
}

}  // namespace ddprun::launcher
