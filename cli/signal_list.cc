// SPDX-License-Identifier: Apache-2.0
#include "cli/signal_list.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/suggest.h"
#include "cli/values.h"
#include "launcher/exit_status.h"
#include "launcher/signals.h"

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

/// Why not, of one that cannot.
const char* reason_against(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
      return ": no process can take it";
    case SIGCHLD:
    case SIGCONT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG:
    case SIGWINCH:
      return ": it does not ask a process to end";
    default:
      return ": it tells a process of an error of its own";
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
  if (name == "SIGIO") return SIGIO;  // the same one as SIGPOLL
  return std::nullopt;
}

Error unknown(std::string_view word) {
  std::vector<std::string> names;
  for (int signal = 1; signal < kFirstRealTime; ++signal) {
    if (can_be_handled(signal)) names.push_back(launcher::signal_name(signal));
  }
  const std::optional<std::string> near = suggest(canonical(word), names);
  return {Errc::usage,
          "does not know '" + printable(word) + "'; " +
              (near ? "did you mean " + *near + "?" : "it takes names such as SIGTERM,SIGUSR1")};
}

}  // namespace

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view word = trimmed(text.substr(0, comma));
    const std::string name = canonical(word);
    const std::optional<int> signal = number_of(name);
    if (!signal) return unknown(word);
    if (!can_be_handled(*signal)) {
      return Error{Errc::usage, "cannot have " + name + reason_against(*signal)};
    }
    if (std::find(signals.begin(), signals.end(), *signal) == signals.end()) {
      signals.push_back(*signal);
    }
    if (comma == std::string_view::npos) return signals;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ddprun::cli
