// SPDX-License-Identifier: Apache-2.0
#include "cli/ask/job_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "base/number.h"
#include "base/text.h"

namespace ddprun::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostAnswer = 256 * 1024 * 1024;  // a status of a million ranks
constexpr milliseconds kListLimit{2'000};          // for a ddprun that may be stopped

/// Sends `request`, and receives until the end. Returns 0 or an errno.
int exchange(const Fd& fd, std::string_view request, Deadline deadline, std::string& answer) {
  int error = send_all(fd, request, deadline);
  std::array<char, 64 * 1024> bytes;
  for (size_t size = 1; error == 0 && size > 0 && answer.size() <= kMostAnswer;) {
    error = receive_some(fd, bytes, deadline, size);
    answer.append(bytes.data(), size);
  }
  return error == ECONNRESET ? 0 : error;
}

Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{Errc::usage, "the path is too long for a socket: " + path};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return os_error("cannot create a socket", errno);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  if (errno == EAGAIN) return Error{Errc::timed_out, "too many others ask it now: try again"};
  Error error = os_error("cannot connect to " + path, errno);
  if (errno == ECONNREFUSED || errno == ENOENT) error.code = Errc::closed;
  return error;
}

/// The sentence of a refusal, {"error":"..."}; reads no other JSON.
std::string refusal_in(std::string_view body) {
  constexpr std::string_view kBegin = "{\"error\":\"";
  const size_t end = body.rfind("\"}");
  if (!body.starts_with(kBegin) || end == body.npos || end < kBegin.size()) return "";
  return printable(body.substr(kBegin.size(), end - kBegin.size()));
}

/// Whether the body is as long as the head says: a process that ends may have sent only a part.
bool is_whole(std::string_view head, size_t body) {
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t at = head.find(kLength);
  if (at == head.npos) return false;
  head.remove_prefix(at + kLength.size());
  return leading_number<size_t>(head) == body;
}

/// The body of "HTTP/1.1 200 OK ...".
Result<std::string> body_of(std::string answer) {
  constexpr std::string_view kHttpVersion = "HTTP/1.";
  const size_t head = answer.find("\r\n\r\n");
  unsigned status = 0;
  if (answer.starts_with(kHttpVersion) && head != answer.npos) {
    const std::string_view code = std::string_view(answer).substr(kHttpVersion.size() + 2);
    status = leading_number<unsigned>(code).value_or(0);
  }
  if (status == 0 ||
      !is_whole(std::string_view(answer).substr(0, head), answer.size() - head - 4)) {
    return Error{Errc::unreachable, "the job ended before it had answered"};
  }
  answer.erase(0, head + 4);
  if (status == 200) return answer;
  const std::string sentence = refusal_in(answer);
  if (sentence.empty()) return Error{Errc::protocol, "HTTP status " + std::to_string(status)};
  return Error{Errc::usage, sentence};
}

bool is_same_job(const RunningJob& a, const RunningJob& b) {
  return !a.status.session.empty() && a.status.session == b.status.session;
}

/// The first ddprun of each job.
std::vector<RunningJob> one_of_each(const std::vector<RunningJob>& jobs) {
  std::vector<RunningJob> found;
  for (const RunningJob& job : jobs) {
    const bool is_known =
        std::ranges::any_of(found, [&](const RunningJob& one) { return is_same_job(one, job); });
    if (!is_known) found.push_back(job);
  }
  return found;
}

std::string names_of(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const RunningJob& job : jobs) {
    text += (text.empty() ? "" : ", ") + std::to_string(job.socket.pid) + " (" +
            (job.problem.empty() ? job.status.job : job.problem) + ")";
  }
  return text;
}

/// Whether the socket is new: then its process may be about to listen.
bool is_new(const std::string& path) {
  constexpr time_t kNew = 2;  // seconds
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && std::time(nullptr) - status.st_ctime <= kNew;
}

/// Removes a socket that a killed ddprun has left behind.
void remove_abandoned(const std::string& path) {
  if (!is_new(path)) unlink(path.c_str());
}

}  // namespace

Result<std::string> ask_socket(const std::string& path, std::string_view method,
                               const std::string& target, milliseconds limit) {
  const Deadline deadline = std::chrono::steady_clock::now() + limit;
  const Result<Fd> fd = connect_to(path);
  if (!fd) return fd.error();
  const std::string request =
      std::string(method) + " " + target + " HTTP/1.1\r\nHost: ddprun\r\nConnection: close\r\n\r\n";
  std::string answer;
  const int error = exchange(*fd, request, deadline, answer);
  if (error == ETIMEDOUT) {
    return Error{Errc::timed_out, "no answer within " + duration_text(limit)};
  }
  if (error != 0) return os_error("cannot ask", error);
  if (answer.size() > kMostAnswer) return Error{Errc::protocol, "the answer is too long"};
  return body_of(std::move(answer));
}

std::vector<RunningJob> running_jobs() {
  std::vector<RunningJob> jobs;
  for (const agent::ask::Socket& socket : agent::ask::sockets_in(agent::ask::socket_folders())) {
    if (socket.pid == 0) {
      const Result<Fd> connected = connect_to(socket.path);  // no process reads streams there
      if (!connected && connected.error().code == Errc::closed) remove_abandoned(socket.path);
      continue;
    }
    const Result<std::string> body = ask_socket(socket.path, "GET", "/status?node=1", kListLimit);
    if (!body && body.error().code == Errc::closed) {
      remove_abandoned(socket.path);
      continue;
    }
    RunningJob job{socket, {}, {}};
    Result<agent::ask::JobStatus> status =
        body ? agent::ask::status_in(*body) : Result<agent::ask::JobStatus>(body.error());
    if (status) job.status = std::move(*status);
    if (!status) job.problem = status.error().message;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& name) {
  std::vector<RunningJob> found;
  std::ranges::copy_if(jobs, std::back_inserter(found), [&](const RunningJob& job) {
    return name.empty() || job.status.job == name || std::to_string(job.socket.pid) == name;
  });
  found = one_of_each(found);
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return Error{Errc::usage, "several jobs run here: give the pid of one: " + names_of(found)};
  }
  if (jobs.empty())
    return Error{Errc::usage,
                 "no job of this user runs on this host: run this on a host of the job"};
  return Error{Errc::usage,
               "no job '" + name + "' runs here; there is " + names_of(one_of_each(jobs))};
}

}  // namespace ddprun::cli
