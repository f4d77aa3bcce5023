// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/file_timers.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "agent/worker/worker_env.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kEnabled = "TORCHELASTIC_ENABLE_FILE_TIMER";
constexpr std::string_view kFile = "TORCHELASTIC_TIMER_FILE";
constexpr size_t kMostInTurn = 64 * 1024;  // as much as a pipe holds; other events wait for it
constexpr size_t kMostOfScope = 200;       // in a message

/// Removes a pipe that an earlier job of this user has left at `path`, as torchrun does.
Result<> remove_left(const std::string& path) {
  struct stat about{};
  if (lstat(path.c_str(), &about) != 0) return {};
  if (!S_ISFIFO(about.st_mode) || about.st_uid != geteuid()) {
    return os_error("cannot make the named pipe " + path, EEXIST);
  }
  unlink(path.c_str());
  return {};
}

/// Signals a process of these workers. Returns its worker's rank; nullopt: it is of no worker, or
/// did not get the signal. Opens the descriptor first: so the pid cannot become another process's.
std::optional<int> signal_process(pid_t pid, int signal, const std::map<pid_t, int>& ranks) {
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return std::nullopt;
  const std::optional<int> rank = launcher::rank_of(pid, ranks);
  const bool sent = rank && syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
  return sent ? rank : std::nullopt;
}

}  // namespace

FileTimers::~FileTimers() {
  if (!path_.empty()) unlink(path_.c_str());
}

void FileTimers::open(const std::vector<std::string>& environment, const std::string& folder) {
  const char* enabled = find_variable(environment, kEnabled);
  if (enabled == nullptr || std::string_view(enabled) != "1") return;
  const char* given = find_variable(environment, kFile);
  const std::string path = given != nullptr ? given : folder + "/timers_" + random_name();
  if (const Result<> made = make_pipe(path); !made) {
    return log::warning(std::string(kEnabled) + ": " + made.error().message +
                        ": timers of workers do not run");
  }
  if (given == nullptr) variables_ = {std::string(kFile) + "=" + path};
}

/// Opens the pipe for writing, too, so that it does not end when the last client closes it.
Result<> FileTimers::make_pipe(const std::string& path) {
  if (const Result<> removed = remove_left(path); !removed) return removed;
  if (mkfifo(path.c_str(), 0600) != 0) {
    return os_error("cannot make the named pipe " + path, errno);
  }
  path_ = path;
  Fd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe) return os_error("cannot open the named pipe " + path, errno);
  pipe_.assign(pipe.release());
  wait();
  return {};
}

void FileTimers::wait() {
  pipe_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   [this](boost::system::error_code cancelled) {
                     if (cancelled) return;
                     read();
                     wait();
                   });
}

void FileTimers::read() {
  std::string bytes(kMostInTurn, '\0');
  const ssize_t size = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
  if (size <= 0) return;
  take(std::string_view(bytes).substr(0, static_cast<size_t>(size)));
  arm();
}

void FileTimers::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, newline);
    if (begun_.size() <= kLongestRequest) begun_ += piece.substr(0, kLongestRequest + 1);
    if (newline == std::string_view::npos) return;
    if (const auto request = parse_timer_request(std::exchange(begun_, {}))) timers_.add(*request);
    bytes.remove_prefix(newline + 1);
  }
}

void FileTimers::arm() {
  const auto next = timers_.next();
  if (!next) return static_cast<void>(timer_.cancel());
  timer_.expires_at(*next);
  timer_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) expire();
  });
}

void FileTimers::expire() {
  for (const TimerRequest& timer : timers_.take_expired(std::chrono::system_clock::now())) {
    const std::optional<int> rank = signal_process(timer.pid, timer.signal, ranks_);
    if (!rank) continue;
    const std::string scope = cut(printable(timer.scope), kMostOfScope);
    causes_[timer.pid] = "its timer '" + scope + "' expired (" + std::string(kFile) + ")";
    log::warning("rank " + std::to_string(*rank) + ": the timer '" + scope + "' of pid " +
                 std::to_string(timer.pid) + " expired: " + launcher::signal_name(timer.signal));
  }
  arm();
}

void FileTimers::begin(std::map<pid_t, int> ranks) {
  ranks_ = std::move(ranks);
  causes_.clear();
  timers_.clear();
  timer_.cancel();
}

std::string FileTimers::cause(pid_t pid) const {
  const auto found = causes_.find(pid);
  return found == causes_.end() ? "" : found->second;
}

}  // namespace ddprun::agent
