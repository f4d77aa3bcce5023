// SPDX-License-Identifier: Apache-2.0
#include "cli/line/signal_list.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/line/usage_error.h"
#include "cli/line/values.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/signals.h"

namespace ddprun::cli {
namespace {

constexpr int kFirstRealTime = 32;  // the standard signals are below it (signal(7))

bool can_be_handled(int signal) {
  const auto is_in = [signal](const auto& signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  return is_in(launcher::kStopSignals) || is_in(launcher::kForwardedSignals) ||
         is_in(launcher::kOtherSignals);
}

/// Why a signal cannot be handled.
const char* reason_against(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
      return ": no process can catch it";
    case SIGCHLD:
    case SIGCONT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG:
    case SIGWINCH:
      return ": it does not ask a process to end";
    default:
      return ": it reports an error of the process itself";
  }
}

/// "SIGTERM" for "term".
std::string canonical(std::string_view word) {
  std::string name(word);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name.starts_with("SIG") ? name : "SIG" + name;
}

std::optional<int> number_of(const std::string& name) {
  for (int signal = 1; signal < kFirstRealTime; ++signal) {
    if (launcher::signal_name(signal) == name) return signal;
  }
  if (name == "SIGIO") return SIGIO;  // another name of SIGPOLL
  return std::nullopt;
}

Error unknown_signal(std::string_view word) {
  std::vector<std::string> names;
  for (int signal = 1; signal < kFirstRealTime; ++signal) {
    if (can_be_handled(signal)) names.push_back(launcher::signal_name(signal));
  }
  return usage_error(
      "got the unknown signal '" + printable(word) + "'" +
      did_you_mean(suggest(canonical(word), names), "it takes names such as SIGTERM,SIGUSR1"));
}

}  // namespace

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  for (const std::string_view part : split(text)) {
    const std::string_view word = trimmed(part);
    const std::string name = canonical(word);
    const std::optional<int> signal = number_of(name);
    if (!signal) return unknown_signal(word);
    if (!can_be_handled(*signal)) {
      return usage_error("cannot handle " + name + reason_against(*signal));
    }
    if (std::find(signals.begin(), signals.end(), *signal) == signals.end()) {
      signals.push_back(*signal);
    }
  }
  return signals;
}

}  // namespace ddprun::cli
