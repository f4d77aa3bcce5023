// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/process/spawn.h"

// The messages between the agent and the template of --preload (agent/worker/preload.py). Pure.
//
// To the template: one byte with a descriptor: a request that is its own command; then one byte
// with four descriptors: a request, and the worker's stdin, stdout and stderr; after the last
// worker of a round one byte alone. From it, fields that NUL separates:
//
//   ready                            it has imported all modules
//   refused CAUSE                    workers may not be forked from it
//   failed EXCEPTION TRACEBACK       an import failed
//   started PID                      the answer to a request
//   not_started REASON               the other answer
//   done                             the workers of a round are this process's children, and run

namespace ddprun::launcher {

/// The longest message, in bytes.
inline constexpr size_t kMaxTemplateMessage = 96UL * 1024;

struct TemplateMessage {
  enum class Kind { ready, refused, failed, started, not_started, done };

  Kind kind;
  std::string text = {};       ///< cause, exception or reason
  std::string traceback = {};  ///< of `failed`
  int pid = 0;                 ///< of `started`
};

/// nullopt: the bytes are no message.
std::optional<TemplateMessage> parse_template_message(std::string_view bytes);

/// The request for a worker that runs `command`: its CPUs, the number of its words, these, and its
/// environment, each followed by NUL.
std::string fork_request(const Command& command);

}  // namespace ddprun::launcher
