// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/spawned.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "collectives/errors.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

/// Tells a process that runs the program again its part: "NUMBER OF SPAWN:RANK:PIPE".
constexpr const char* kPartVariable = "DDP_SPAWN";

bool spawned = false;

SpawnReport make_report(int rank, SpawnReport::Kind kind, std::string_view text) {
  SpawnReport report{rank, kind, {}};
  text.copy(report.text.data(), report.text.size() - 1);
  return report;
}

/// If the parent is gone, nobody reads the report, and this process ends anyway.
void send_report(const SpawnReport& report, int pipe) {
  [[maybe_unused]] const ssize_t written = ::write(pipe, &report, sizeof(report));
}

/// Returns the exit code.
int call_fn(int rank, const std::function<void(int)>& fn, int pipe) {
  using Kind = SpawnReport::Kind;
  try {
    fn(rank);
    return 0;
  } catch (const Error& error) {
    send_report(make_report(rank, is_loss(error) ? Kind::lost_another : Kind::failed, error.what()),
                pipe);
  } catch (const std::exception& error) {
    send_report(make_report(rank, Kind::failed, error.what()), pipe);
  } catch (...) {
    send_report(make_report(rank, Kind::failed, "an exception that is no std::exception"), pipe);
  }
  return 1;
}

std::vector<std::string> own_command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

/// This process's variables; `own` replaces variables of the same names.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& own) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_own =
        std::ranges::any_of(own, [&](const auto& one) { return one.first == name; });
    if (!is_own) all.emplace_back(text);
  }
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void run_spawned(int rank, const std::function<void(int)>& fn, int pipe) {
  spawned = true;
  send_report(make_report(rank, SpawnReport::Kind::begun, ""), pipe);
  std::exit(call_fn(rank, fn, pipe));
}

bool is_spawned() {
  return spawned;
}

std::vector<std::pair<std::string, std::string>> variables_of_rank(int rank, int nprocs,
                                                                   std::uint16_t port) {
  const std::string number = std::to_string(rank);
  const std::string size = std::to_string(nprocs);
  return {{"RANK", number},
          {"LOCAL_RANK", number},
          {"WORLD_SIZE", size},
          {"LOCAL_WORLD_SIZE", size},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

ProgramAgain::ProgramAgain(int rank, int nprocs, std::uint16_t port, int spawn_number, int pipe)
    : words_(own_command_line()),
      pipe_(pipe),
      report_(make_report(rank, SpawnReport::Kind::failed, "cannot run /proc/self/exe: ")) {
  auto own = variables_of_rank(rank, nprocs, port);
  own.emplace_back(kPartVariable, std::to_string(spawn_number) + ":" + std::to_string(rank) + ":" +
                                      std::to_string(pipe));
  variables_ = environment_with(own);
  arguments_ = pointers_to(words_);
  environment_ = pointers_to(variables_);
}

void ProgramAgain::execute() {
  ::fcntl(pipe_, F_SETFD, 0);
  ::execve("/proc/self/exe", arguments_.data(), environment_.data());
  const char* const reason = ::strerrordesc_np(errno);
  if (reason != nullptr) std::strcat(report_.text.data(), reason);
  send_report(report_, pipe_);
  ::_exit(1);
}

std::optional<SpawnedPart> find_part(int spawn_number) {
  const char* const text = std::getenv(kPartVariable);
  if (text == nullptr) return std::nullopt;
  std::istringstream fields(text);
  int number = 0;
  char colon = 0;
  SpawnedPart part;
  if (!(fields >> number >> colon >> part.rank >> colon >> part.pipe)) return std::nullopt;
  part.is_later = spawn_number < number;
  if (part.is_later) return part;
  ::fcntl(part.pipe, F_SETFD, FD_CLOEXEC);
  ::unsetenv(kPartVariable);  // programs that `fn` starts must not see it
  return part;
}

}  // namespace ddp::internal
