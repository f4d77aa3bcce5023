// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/recorded_calls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostAnswer = 256 * 1024;  // of an answer
constexpr size_t kMostValues = 32'768;
constexpr size_t kMostGroups = 64;
constexpr size_t kMostRecent = 16;
constexpr size_t kMostTimes = 257;
constexpr size_t kLongestCall = 48;
constexpr std::uint64_t kNumbers = std::uint64_t{1} << 48;  // that are counts of calls
constexpr std::uint64_t kTimes = std::uint64_t{1} << 53;    // that are microseconds of a clock

/// A worker that is asked.
struct Answer {
  Fd socket{};
  std::string text{};
  bool complete = false;
};

/// Without waiting: one whose queue is full does not answer in time either.
Fd connect_to(const std::string& path) {
  sockaddr_un address = {};
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  return socket && connect(socket.get(), to, sizeof address) == 0 ? std::move(socket) : Fd();
}

/// Reads what is there; false: nothing more follows.
bool read_more(int fd, std::string& text, bool& complete) {
  std::array<char, 16'384> bytes;
  const ssize_t size = read(fd, bytes.data(), bytes.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  text.append(bytes.data(), static_cast<size_t>(size));
  complete = size == 0;
  return size > 0 && text.size() <= kMostAnswer;
}

void read_answers(std::vector<Answer>& answers, Clock::time_point deadline) {
  std::vector<pollfd> open;
  for (const Answer& answer : answers) open.push_back({answer.socket.get(), POLLIN, 0});
  while (std::ranges::any_of(open, [](const pollfd& each) { return each.fd >= 0; })) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || poll(open.data(), open.size(), static_cast<int>(left)) == 0) return;
    for (size_t i = 0; i < open.size(); ++i) {
      Answer& answer = answers[i];
      const bool ready = open[i].fd >= 0 && open[i].revents != 0;
      if (ready && !read_more(open[i].fd, answer.text, answer.complete)) open[i].fd = -1;
    }
  }
}

std::uint64_t number_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  const bool fits = found != json.end() && found->is_number_unsigned();
  return fits ? std::min(found->get<std::uint64_t>(), kNumbers) : kNumbers;
}

/// "#9 all_reduce[8]", without what no name of a call has.
std::string call_in(const Json& json) {
  std::string text = json.is_string() ? json.get<std::string>().substr(0, kLongestCall) : "";
  const auto is_foreign = [](unsigned char c) { return c < ' ' || c > '~'; };
  std::ranges::replace_if(text, is_foreign, '?');
  return text;
}

/// When the last `most` calls began. Empty: a time makes no sense.
std::vector<std::int64_t> times_in(const Json& json, std::uint64_t most) {
  std::vector<std::int64_t> times;
  if (!json.is_array() || json.size() > std::min<std::uint64_t>(kMostTimes, most)) return times;
  std::uint64_t time = 0;
  for (const Json& since : json) {
    if (!since.is_number_unsigned() || since.get<std::uint64_t>() > kTimes - time) return {};
    time += since.get<std::uint64_t>();
    if (time == 0) return {};
    times.push_back(static_cast<std::int64_t>(time));
  }
  return times;
}

/// Its group is 0: it makes no sense.
WorkerCall group_in(const Json& json) {
  WorkerCall call;
  if (!json.is_object()) return call;
  const std::uint64_t group = number_in(json, "group");
  call.begun = number_in(json, "begun");
  call.open = number_in(json, "open");
  const auto failed = json.find("failed"), recent = json.find("recent");
  call.failed = failed != json.end() && failed->is_boolean() && failed->get<bool>();
  if (group >= kNumbers || call.begun >= kNumbers || call.open > call.begun) return call;
  if (recent == json.end() || !recent->is_array()) return call;
  const size_t count = std::min({recent->size(), kMostRecent, static_cast<size_t>(call.begun)});
  for (size_t i = recent->size() - count; i < recent->size(); ++i)
    call.recent.push_back(call_in((*recent)[i]));
  const std::uint64_t back = call.open == 0 ? 0 : call.begun - call.open;
  if (back < count) call.shown = call.recent[count - 1 - back];
  if (call.shown.empty() && call.begun > 0) call.shown = "#" + std::to_string(call.begun - back);
  if (const auto release = json.find("release"); release != json.end())
    call.release = call_in(*release);
  const std::uint64_t members = number_in(json, "members");
  call.members = members <= INT_MAX ? static_cast<int>(members) : 0;
  if (const auto times = json.find("times"); times != json.end())
    call.times = times_in(*times, call.begun);
  call.group = group;
  return call;
}

}  // namespace

std::vector<std::vector<WorkerCall>> recorded_calls(const std::vector<std::string>& sockets,
                                                    std::chrono::milliseconds limit) {
  std::vector<Answer> answers;
  for (const std::string& path : sockets) answers.push_back({.socket = connect_to(path)});
  read_answers(answers, Clock::now() + limit);
  std::vector<std::vector<WorkerCall>> calls;
  for (const Answer& answer : answers) {
    calls.push_back(answer.complete ? parse_recorded_calls(answer.text)
                                    : std::vector<WorkerCall>());
  }
  return calls;
}

std::vector<WorkerCall> left_calls(const std::string& file) {
  const Fd left(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string text;
  bool complete = false;
  while (left && read_more(left.get(), text, complete)) {
  }
  return complete ? parse_recorded_calls(text) : std::vector<WorkerCall>();
}

std::vector<WorkerCall> parse_recorded_calls(std::string_view json) {
  std::vector<WorkerCall> calls;
  const auto groups = parse_bounded(json, kMostValues);
  if (!groups.is_array()) return calls;
  for (const Json& group : groups) {
    if (calls.size() == kMostGroups) break;
    calls.push_back(group_in(group));
    if (calls.back().group == 0) calls.pop_back();
  }
  return calls;
}

}  // namespace ddprun::launcher
