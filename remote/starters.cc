// SPDX-License-Identifier: Apache-2.0
#include "remote/starters.h"

#include "base/text.h"
#include "remote/launch_order.h"

namespace ddprun::remote {
namespace {

constexpr int kCannotExecute = 126, kNotFound = 127;  // a shell's codes

Words split_words(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const std::string_view word = take_piece(text, ' ');
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

std::string in_parentheses(const std::string& text) {
  return text.empty() ? "" : " (" + printable(cut(text, 300)) + ")";
}

/// Advice to try the starter's words with another program by hand. Empty: there is no starter. The
/// last word of an ssh has program and flag.
std::string by_hand(const FailedStart& failure) {
  const Words& words = failure.starter;
  const size_t size = words.size() - (words.back() == kAgentFlag ? 2 : 1);
  if (size == 0) return "";
  std::string text = "; try it by hand: ";
  for (size_t i = 0; i < size; ++i) text += words[i] + " ";
  text += "true";
  return failure.instead.empty() ? text
                                 : text + "; or start ddprun on every node: " + failure.instead;
}

}  // namespace

Words ssh_command(std::string_view ssh, std::string_view host, std::string_view executable) {
  Words words = split_words(ssh);
  // No question can be answered. No process of ours may become the master of the user's
  // connections. If a host vanishes, its ssh ends within a minute.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=20", "ControlMaster=no",
                             "ServerAliveInterval=15", "ServerAliveCountMax=3"}) {
    words.insert(words.end(), {"-o", option});
  }
  words.insert(words.end(), {"-T", std::string(host),
                             "exec " + shell_word(executable) + " " + std::string(kAgentFlag)});
  return words;
}

Words srun_command(std::string_view host, std::string_view executable) {
  return {"srun",
          "--nodes=1",
          "--ntasks=1",
          "--ntasks-per-node=1",
          "--nodelist=" + std::string(host),
          "--overlap",
          "--mpi=none",
          "--cpu-bind=none",
          "--export=ALL",
          "--kill-on-bad-exit=0",
          "--quiet",
          "--",
          std::string(executable),
          std::string(kAgentFlag)};
}

/// blaunch passes stdin on unless it has -n.
Words blaunch_command(std::string_view host, std::string_view executable) {
  return {"blaunch", std::string(host), shell_word(executable), std::string(kAgentFlag)};
}

/// qrsh passes stdin on unless it has -nostdin.
Words qrsh_command(std::string_view host, std::string_view executable) {
  return {"qrsh",
          "-inherit",
          "-noshell",
          std::string(host),
          std::string(executable),
          std::string(kAgentFlag)};
}

/// flux run passes stdin on unless it has --input.
Words flux_command(std::string_view host, std::string_view executable) {
  return {"flux",
          "run",
          "--nodes=1",
          "--ntasks=1",
          "--exclusive",
          "--requires=host:" + std::string(host),
          "--setopt=cpu-affinity=off",
          "--unbuffered",
          std::string(executable),
          std::string(kAgentFlag)};
}

std::string starter_name(const Words& starter) {
  const std::string& program = starter.front();
  return program.substr(program.rfind('/') + 1);
}

Words local_command(std::string_view executable) {
  return {std::string(executable), std::string(kAgentFlag)};
}

std::string start_failure_text(const FailedStart& failure) {
  const std::string host = "host " + failure.host + ": ";
  if (!failure.said.empty()) return host + failure.said;
  if (failure.tail.find(kAgentFlag) != std::string::npos) {
    return host + "ddprun there has another version" + in_parentheses(failure.tail) +
           ": install " DDPRUN_VERSION " on all hosts";
  }
  if (failure.code == kNotFound || failure.code == kCannotExecute) {
    return host + "no ddprun there" + in_parentheses(failure.tail) +
           ": install it at the same path on all hosts";
  }
  return host + "cannot be reached: " + starter_name(failure.starter) + " ended with exit code " +
         std::to_string(failure.code) + in_parentheses(failure.tail) + by_hand(failure);
}

}  // namespace ddprun::remote
