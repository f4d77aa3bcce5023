// SPDX-License-Identifier: Apache-2.0
#include "bench/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::bench {

namespace {

[[noreturn]] void end_with_errno(const std::string& what) {
  perror(what.c_str());
  std::exit(1);
}

int must(int result, const char* what) {
  if (result < 0) end_with_errno(what);
  return result;
}

Fd open_pidfd(pid_t pid) {
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

/// Whether `fd` becomes readable before `deadline` (monotonic, ns).
bool readable_until(int fd, std::int64_t deadline) {
  pollfd entry{fd, POLLIN, 0};
  const std::int64_t left = std::max<std::int64_t>(0, deadline - monotonic_ns());
  return poll(&entry, 1, static_cast<int>(left / 1'000'000)) == 1;
}

Words split(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<char*> argv_of(Words& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

[[noreturn]] void exec_command(Words command) {
  setsid();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) dup2(null, fd);
  execvp(command[0].c_str(), argv_of(command).data());
  _exit(127);
}

std::vector<pid_t> children(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::ifstream list("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> all;
  for (pid_t child = 0; list >> child;) all.push_back(child);
  return all;
}

/// Prints a line if it does not work.
bool works(const Launcher& launcher) {
  bool ok = !launcher.program[0].empty();
  if (ok) {
    Run run(launcher.command(1, 0, {built_program("bench_worker"), "stamp"}));
    ok = run.wait_for_end(30'000) && run.succeeded();
  }
  if (!ok) std::printf("not installed, or not working: %s\n", launcher.name.c_str());
  return ok;
}

}  // namespace

Words Launcher::command(int count, int restarts, const Words& worker) const {
  const std::string n = std::to_string(count);
  Words words = program;
  const auto add = [&words](const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  switch (kind) {
    case Kind::bare_loop:
      add({std::to_string(restarts), n});
      break;
    case Kind::ddprun:
      add({"--nproc_per_node", n, "--max_restarts", std::to_string(restarts)});
      break;
    case Kind::hydra:
      add({"-n", n});
      break;
    case Kind::openmpi:
      add({"--allow-run-as-root", "--oversubscribe", "-np", n});
      break;
    case Kind::torchrun:
      add({"--standalone", "--nproc_per_node=" + n, "--monitor_interval=0.1",
           "--max_restarts=" + std::to_string(restarts), "--no_python"});
      break;
  }
  add(worker);
  return words;
}

namespace {

/// Copies programs so that the page cache has them as it has installed ones. It has a file that the
/// linker wrote in smaller pieces, so that starts 0.3 ms later, and the comparison would be unfair.
class Copies {
 public:
  Copies() {
    if (mkdtemp(folder_.data()) == nullptr) end_with_errno("mkdtemp");
  }
  ~Copies() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Copies(const Copies&) = delete;

  std::string of(const std::string& program, const std::string& name) const {
    const std::string copy = folder_ + "/" + name;
    std::error_code failed;
    std::filesystem::copy_file(program, copy, std::filesystem::copy_options::skip_existing, failed);
    return failed ? program : copy;
  }

 private:
  std::string folder_ = "/tmp/ddprun_bench_XXXXXX";
};

}  // namespace

std::vector<Launcher> ddpruns() {
  static const Copies copies;
  std::vector<Launcher> all = {
      {Launcher::Kind::ddprun, "ddprun", {copies.of(built_program("ddprun"), "ddprun")}}};
  if (const char* baseline = std::getenv("DDPRUN_BENCH_BASELINE")) {
    all.push_back({Launcher::Kind::ddprun, "ddprun (baseline)", {copies.of(baseline, "baseline")}});
  }
  return all;
}

std::vector<Launcher> launchers() {
  std::vector<Launcher> all = {
      {Launcher::Kind::bare_loop, "bare fork+exec loop", {built_program("bench_bare_loop")}},
      {Launcher::Kind::hydra, "mpiexec.hydra", {which("mpiexec.hydra")}},
      {Launcher::Kind::openmpi, "mpirun (Open MPI)", {which("mpirun.openmpi")}},
      {Launcher::Kind::torchrun, "torchrun", {which("torchrun")}},
  };
  if (const char* torchrun = std::getenv("DDPRUN_BENCH_TORCHRUN")) {
    all.back().program = split(torchrun);
  }
  const std::vector<Launcher> ours = ddpruns();
  all.insert(all.begin() + 1, ours.begin(), ours.end());
  std::erase_if(all, [](const Launcher& launcher) { return !works(launcher); });
  return all;
}

std::vector<pid_t> launcher_processes(pid_t pid) {
  std::error_code gone;
  const auto exe = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
  if (gone || exe.filename() == "bench_worker") return {};
  std::vector<pid_t> all = {pid};
  for (const pid_t child : children(pid)) {
    const auto more = launcher_processes(child);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string built_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

std::string which(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Run::Run(const Words& command) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of a launcher become ours: ~Run reaps them
  char folder[] = "/dev/shm/ddprun-bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) end_with_errno("mkdtemp");
  folder_ = folder;
  const std::string stamps = folder_ + "/stamps";
  const std::string gate = folder_ + "/gate";
  const Fd file(must(open(stamps.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), "open"));
  must(mkfifo(gate.c_str(), 0600), "mkfifo");
  // Opened for reading, too, so that neither side waits for the other to open it.
  gate_ = Fd(must(open(gate.c_str(), O_RDWR | O_CLOEXEC), "open"));
  setenv("BENCH_STAMPS", stamps.c_str(), 1);
  setenv("BENCH_GATE", gate.c_str(), 1);

  began_ = monotonic_ns();
  pid_ = must(fork(), "fork");
  if (pid_ == 0) exec_command(command);
  pidfd_ = open_pidfd(pid_);
}

Run::~Run() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t pid : more_) kill(pid, SIGKILL);
  for (const pid_t pid : more_) waitpid(pid, nullptr, 0);
  for (const Stamp& stamp : stamps()) {
    std::error_code gone;
    const auto exe =
        std::filesystem::read_symlink("/proc/" + std::to_string(stamp.pid) + "/exe", gone);
    if (!gone && exe.filename() == "bench_worker") kill(stamp.pid, SIGKILL);
  }
  while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
  std::filesystem::remove_all(folder_);
}

pid_t Run::add(const Words& command) {
  more_.push_back(must(fork(), "fork"));
  if (more_.back() == 0) exec_command(command);
  return more_.back();
}

std::optional<std::int64_t> Run::wait_for_end(int limit_ms) {
  const bool ended = readable_until(pidfd_.get(), monotonic_ns() + limit_ms * 1'000'000LL);
  const std::int64_t now = monotonic_ns();
  if (!ended) kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
  reaped_ = true;
  if (!ended) return std::nullopt;
  return now;
}

bool Run::wait_for_workers(int count) {
  const std::int64_t deadline = monotonic_ns() + 60'000'000'000LL;
  while (static_cast<int>(stamps().size()) < count) {
    const std::int64_t next = monotonic_ns() + 5'000'000;
    if (next > deadline || readable_until(pidfd_.get(), next)) return false;
  }
  return true;
}

void Run::open_gate(char how) const {
  if (write(gate_.get(), &how, 1) != 1) end_with_errno("write");
}

std::vector<Stamp> Run::stamps() const {
  const Fd file(must(open((folder_ + "/stamps").c_str(), O_RDONLY | O_CLOEXEC), "open"));
  std::vector<Stamp> all;
  Stamp stamp{};
  while (read(file.get(), &stamp, sizeof stamp) == sizeof stamp) all.push_back(stamp);
  return all;
}

std::vector<std::optional<std::int64_t>> ends_of(const std::vector<pid_t>& pids, int limit_ms) {
  std::vector<Fd> fds;
  std::vector<pollfd> waiting;
  std::vector<std::optional<std::int64_t>> ends(pids.size());
  for (size_t i = 0; i < pids.size(); i++) {
    fds.push_back(open_pidfd(pids[i]));
    if (!fds[i]) ends[i] = monotonic_ns();
    waiting.push_back({fds[i].get(), POLLIN, 0});  // poll ignores -1
  }
  const std::int64_t deadline = monotonic_ns() + limit_ms * 1'000'000LL;
  const auto missing = [&ends] {
    return std::find(ends.begin(), ends.end(), std::nullopt) != ends.end();
  };
  while (missing() && monotonic_ns() < deadline) {
    poll(waiting.data(), waiting.size(),
         static_cast<int>((deadline - monotonic_ns()) / 1'000'000) + 1);
    const std::int64_t now = monotonic_ns();
    for (size_t i = 0; i < pids.size(); i++) {
      if ((waiting[i].revents & POLLIN) == 0) continue;
      ends[i] = now;
      waiting[i] = {-1, 0, 0};
    }
  }
  return ends;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string cell(double value, int decimals) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace ddprun::bench
