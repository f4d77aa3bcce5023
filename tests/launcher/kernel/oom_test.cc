// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/oom.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

/// A temporary directory.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "ddprun-oom-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Scratch() { fs::remove_all(path); }
};

TEST_CASE("a kill in the kernel's log is parsed in every wording") {
  const auto memcg = parse_oom_kill(
      "3,424,2025265960,-;Memory cgroup out of memory: Killed process 21629 (python3) "
      "total-vm:211884kB, anon-rss:32256kB, file-rss:6612kB, shmem-rss:4kB, UID:0 pgtables:132kB "
      "oom_score_adj:0\n");
  REQUIRE(memcg.has_value());
  CHECK(memcg->pid == 21629);
  CHECK(memcg->resident_bytes == (32256 + 6612 + 4) * 1024);

  const auto global = parse_oom_kill(
      "3,9,1,-;Out of memory: Killed process 7 (train) total-vm:9kB, anon-rss:8kB, file-rss:0kB");
  REQUIRE(global.has_value());
  CHECK(global->pid == 7);
  CHECK(global->resident_bytes == 8192);

  const auto before_5_2 = parse_oom_kill(
      "3,9,1,-;Killed process 31 (train) total-vm:9kB, anon-rss:1kB, file-rss:2kB, shmem-rss:0kB");
  REQUIRE(before_5_2.has_value());
  CHECK(before_5_2->pid == 31);
  CHECK(before_5_2->resident_bytes == 3072);
}

TEST_CASE("a process name cannot forge its size, and a program cannot forge a kill") {
  const auto kill = parse_oom_kill(
      "3,9,1,-;Out of memory: Killed process 7 (a) anon-rss:9kB) total-vm:9kB, anon-rss:2kB");
  REQUIRE(kill.has_value());
  CHECK(kill->resident_bytes == 2048);

  CHECK(!parse_oom_kill("12,9,1,-;Out of memory: Killed process 7 (a) anon-rss:9kB"));
  CHECK(!parse_oom_kill("6,9,1,-;someone says Out of memory: Killed process 7 (a) anon-rss:9kB"));
  CHECK(!parse_oom_kill("6,9,1,-;oom_reaper: reaped process 7 (a), now anon-rss:0kB"));
  CHECK(!parse_oom_kill("3,9,1,-;Out of memory: Killed process"));
  CHECK(!parse_oom_kill(""));
}

TEST_CASE("the count of kills is read from the files of both cgroup versions") {
  CHECK(parse_oom_count("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n") == 2u);
  CHECK(parse_oom_count("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n") == 5u);
  CHECK(!parse_oom_count("oom_kill_disable 0\nunder_oom 0\n"));  // before Linux 4.13
  CHECK(!parse_oom_count(""));
}

TEST_CASE("the memory cgroup is found under v1, v2 and both, also within a container") {
  const std::string v2_mounts =
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
  CHECK(oom_count_path("0::/user.slice/job\n", v2_mounts) ==
        "/sys/fs/cgroup/user.slice/job/memory.events");
  CHECK(oom_count_path("0::/\n", v2_mounts) == "/sys/fs/cgroup/memory.events");
  CHECK(oom_count_path("0::/../other\n", v2_mounts).empty());

  const std::string v1_mounts =
      "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime master:5 - cgroup cgroup "
      "rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  CHECK(oom_count_path("4:cpuset:/\n3:hugetlb,memory:/docker/abc/job\n0::/\n", v1_mounts) ==
        "/sys/fs/cgroup/memory/job/memory.oom_control");
  CHECK(oom_count_path("3:memory:/docker/abc\n0::/\n", v1_mounts) ==
        "/sys/fs/cgroup/memory/memory.oom_control");
  CHECK(oom_count_path("", v1_mounts).empty());
  CHECK(oom_count_path("3:memory:/x\n", "").empty());
}

TEST_CASE("memory is printed in MiB or GiB") {
  CHECK(memory_text(512ull << 20) == "512 MiB");
  CHECK(memory_text(66357045862ull) == "61.8 GiB");
}

/// A fake host: its kernel log and its cgroup v2.
struct Host {
  Scratch scratch;
  fs::path log = scratch.path / "kmsg";
  fs::path count = scratch.path / "memory.events";

  explicit Host(const std::string& pid_namespace = "pid:[4026531836]") {
    write(log, "3,1,1,-;Out of memory: Killed process 5 (old) total-vm:1kB, anon-rss:1kB\n");
    write(count, "oom_kill 7\n");
    write(scratch.path / "cgroup", "0::/\n");
    write(scratch.path / "mountinfo",
          "1 0 0:1 / " + scratch.path.string() + " rw - cgroup2 x rw\n");
    fs::create_directory(scratch.path / "ns");
    fs::create_symlink(pid_namespace, scratch.path / "ns" / "pid");
  }
  OomWatch watch() { return OomWatch(log.string(), scratch.path.string()); }
  void append_to_log(const std::string& line) { std::ofstream(log, std::ios::app) << line; }
};

const char* const kKilledFive =
    "3,2,9,-;Memory cgroup out of memory: Killed process 5 (train) total-vm:9kB, "
    "anon-rss:64800000kB\n";

TEST_CASE("a worker whose pid the kernel's log names ran out of memory") {
  Host host;
  OomWatch watch = host.watch();
  CHECK(watch.cause(5, SIGKILL).empty());  // earlier records do not count

  host.append_to_log(kKilledFive);
  CHECK(watch.cause(5, SIGKILL) ==
        "out of memory (this host's kernel killed it at 61.8 GiB resident)");
  CHECK(watch.cause(6, SIGKILL).empty());
  CHECK(watch.cause(5, SIGSEGV).empty());
  CHECK(!watch.cause(5, SIGKILL).empty());  // also if asked again

  OomWatch later = host.watch();
  CHECK(later.cause(5, SIGKILL).empty());
}

TEST_CASE("in a container the kernel's log is ignored, and the cgroup's count is used") {
  Host host("pid:[4026532999]");
  OomWatch watch = host.watch();
  host.append_to_log(kKilledFive);
  CHECK(watch.cause(5, SIGKILL).empty());

  write(host.count, "oom_kill 8\n");
  CHECK(watch.cause(5, SIGKILL) ==
        "out of memory (this host's kernel killed a process of its cgroup for that)");
  OomWatch later = host.watch();
  CHECK(later.cause(5, SIGKILL).empty());
}

TEST_CASE("if the kernel killed another process of the cgroup, the cause is only a guess") {
  Host host;
  OomWatch watch = host.watch();
  write(host.count, "oom_kill 8\n");
  CHECK(watch.cause(5, 0).find("perhaps out of memory") == 0);
  CHECK(watch.cause(5, SIGKILL).find("perhaps out of memory") == 0);
}

TEST_CASE("without a readable log or count there is no cause") {
  Scratch empty;
  OomWatch watch((empty.path / "kmsg").string(), empty.path.string());
  CHECK(watch.cause(5, SIGKILL).empty());
}

/// A memory cgroup of 128 MiB below our own; empty without the permission to create one.
class SmallCgroup {
 public:
  SmallCgroup() {
    const fs::path count =
        oom_count_path(contents("/proc/self/cgroup"), contents("/proc/self/mountinfo"));
    if (count.empty()) return;
    const fs::path path = count.parent_path() / ("ddprun-oom-test-" + std::to_string(getpid()));
    std::error_code failed;
    if (!fs::create_directory(path, failed)) return;
    path_ = path;
    const std::pair<const char*, const char*> limits[] = {
        {"memory.limit_in_bytes", "134217728"},
        {"memory.memsw.limit_in_bytes", "134217728"},
        {"memory.max", "134217728"},
        {"memory.swap.max", "0"}};
    for (const auto& [file, limit] : limits) {
      if (fs::exists(path / file)) write(path / file, limit);
    }
    limited_ = contents(path / "memory.limit_in_bytes") == "134217728\n" ||
               contents(path / "memory.max") == "134217728\n";
  }
  ~SmallCgroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }

  explicit operator bool() const { return limited_; }
  bool enter() const {
    std::ofstream procs(path_ / "cgroup.procs");
    return static_cast<bool>(procs << getpid() << std::flush);
  }

 private:
  fs::path path_;
  bool limited_ = false;
};

/// The cause that an OomWatch in `cgroup` finds for a process that uses more memory than the cgroup
/// has; or "survived", "no way in", or "the watching process was killed".
std::string cause_of_eater(const SmallCgroup& cgroup, const std::string& kmsg) {
  std::array<int, 2> pipe_ends;
  REQUIRE(pipe(pipe_ends.data()) == 0);
  const pid_t helper = fork();
  if (helper == 0) {
    std::string result = "no way in";
    if (cgroup.enter()) {
      OomWatch watch(kmsg);
      const pid_t eater = fork();
      if (eater == 0) {
        // The watching process is in the cgroup, too, and a sanitizer makes it large.
        std::ofstream("/proc/self/oom_score_adj") << 1000 << std::flush;
        constexpr size_t kSize = 512 << 20;
        void* memory =
            mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) std::memset(memory, 1, kSize);
        _exit(0);
      }
      int status = 0;
      waitpid(eater, &status, 0);
      result = WIFSIGNALED(status) ? watch.cause(eater, WTERMSIG(status)) : "survived";
    }
    _exit(::write(pipe_ends[1], result.data(), result.size()) < 0);
  }
  close(pipe_ends[1]);
  std::string result;
  std::array<char, 512> chunk;
  for (ssize_t n; (n = read(pipe_ends[0], chunk.data(), chunk.size())) > 0;) {
    result.append(chunk.data(), static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(helper, &status, 0);
  return WIFSIGNALED(status) ? "the watching process was killed" : result;
}

TEST_CASE("a real process that exceeds the memory of its cgroup is found") {
  const SmallCgroup cgroup;
  if (!cgroup) {
    WARN("skipped: this machine gives us no memory cgroup with a limit of our own");
    return;
  }
  CHECK(cause_of_eater(cgroup, "/nowhere") ==
        "out of memory (this host's kernel killed a process of its cgroup for that)");

  const bool log_is_readable = Fd(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)).get() >= 0;
  const bool pids_are_ours = fs::read_symlink("/proc/self/ns/pid") == "pid:[4026531836]";
  if (!log_is_readable || !pids_are_ours) {
    WARN("skipped in part: the kernel's log cannot be read here, or its pids are not ours");
    return;
  }
  const std::string cause = cause_of_eater(cgroup, "/dev/kmsg");
  INFO(cause);
  CHECK(cause.find("out of memory (this host's kernel killed it at ") == 0);
  CHECK(cause.find(" MiB resident)") != std::string::npos);
}

}  // namespace
}  // namespace ddprun::launcher
