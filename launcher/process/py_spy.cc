// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/py_spy.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "launcher/kernel/process_sample.h"
#include "launcher/process/command_output.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kMostDumpBytes = 1024 * 1024;  // of one dump
constexpr size_t kMostDumps = 64;

}  // namespace

bool is_python(std::string_view program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

bool runs_python(pid_t pid) {
  return is_python(executable_of(pid));
}

std::string find_py_spy(const std::string& program) {
  const char* const path = std::getenv("PATH");
  const std::string beside = is_python(program) ? program.substr(0, program.rfind('/')) : "";
  const std::string folders = beside + ":" + (path ? path : "");
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, end - begin) + "/py-spy";
    if (file.starts_with('/') && file != "/py-spy" && access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return "";
}

std::map<pid_t, std::string> py_spy_dumps(const std::string& py_spy, const std::vector<pid_t>& pids,
                                          std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<pid_t> of;
  std::vector<Command> commands;
  for (const pid_t pid : pids) {
    if (!runs_python(pid) || commands.size() == kMostDumps) continue;
    of.push_back(pid);
    Command& command = commands.emplace_back();
    command.program = py_spy;
    command.arguments = {"py-spy", "dump", "--nonblocking", "--json", "--pid", std::to_string(pid)};
  }
  std::vector<CommandOutput> dumps = outputs_of(std::move(commands), kMostDumpBytes, deadline);
  std::map<pid_t, std::string> texts;
  for (size_t i = 0; i < dumps.size(); ++i) {
    if (dumps[i].is_whole && !dumps[i].text.empty()) texts[of[i]] = std::move(dumps[i].text);
  }
  return texts;
}

}  // namespace ddprun::launcher
