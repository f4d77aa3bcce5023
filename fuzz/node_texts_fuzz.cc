// SPDX-License-Identifier: Apache-2.0
// Arbitrary text as sent by other nodes, helpers and workers to an agent. The parsed values keep to
// their bounds, can be printed, and stay the same when sent on. The first byte selects the reader.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/ask/log_piece.h"
#include "agent/ask/status.h"
#include "agent/ask/status_text.h"
#include "agent/diagnosis/process_stack.h"
#include "agent/diagnosis/python_stack.h"
#include "agent/diagnosis/stacks.h"
#include "agent/progress/notify_message.h"
#include "fuzz/target.h"
#include "launcher/process/recorded_calls.h"

namespace {

using namespace ddprun;
using namespace ddprun::agent;
using fuzz::require;

constexpr int kFirstRank = 4, kRanks = 2;

bool is_printable(const std::string& text) {
  return std::ranges::none_of(
      text, [](unsigned char c) { return (c < ' ' && c != '\t' && c != '\n') || c == 0x7f; });
}

void check_status(std::string_view text) {
  const Result<ask::JobStatus> status = ask::status_in(text);
  if (!status) return require(status.error().code == Errc::protocol, "it is the sender's error");
  const auto again = ask::status_in(to_json(*status));
  require(again && to_json(*again) == to_json(*status), "a status is read as it is written");
  const std::string shown = status_text(*status, {});
  require(is_printable(shown), "a status can be printed");
  require(std::ranges::count(shown, '\n') <= 24, "it fits on the terminal");
  require(is_printable(list_line(*status, 1)), "so can its line in a list");
}

void check_log_piece(std::string_view text) {
  const Result<ask::LogPiece> piece = ask::log_piece_in(text);
  if (!piece) return require(piece.error().code == Errc::protocol, "it is the sender's error");
  require(piece->text.size() <= 3 * ask::kMaxPiece && piece->files.size() <= 2, "it is bounded");
  const auto again = ask::log_piece_in(to_json(*piece));
  require(again && to_json(*again) == to_json(*piece), "a piece is read as it is written");
}

void check_stacks(std::string_view text) {
  const Result<Stacks> stacks = parse_stacks(text, kFirstRank, kRanks);
  if (!stacks) return require(stacks.error().code == Errc::protocol, "it is the sender's error");
  for (const StackNode& node : stacks->tree.root().in) {
    for (const int rank : node.ranks) {
      require(rank >= kFirstRank && rank < kFirstRank + kRanks, "a node tells of its own ranks");
    }
  }
  require(is_printable(stacks_text(*stacks)), "stacks can be printed");
  const auto again = parse_stacks(stacks_json(*stacks));
  require(again && stacks_json(*again) == stacks_json(*stacks), "stacks are read as written");
}

void check_stack_lines(std::string_view text) {
  for (const auto& [pid, stack] : read_stack_lines(text).of) {
    require(pid > 0, "a stack is of a process");
    const std::string line = line_of(pid, stack);
    const ProcessStacks again = read_stack_lines(line);
    require(again.of.contains(pid) && line_of(pid, again.of.at(pid)) == line,
            "a line is read as written");
    rank_stack(0, stack);
    shows_program(stack);
    gpu_call(stack);
  }
}

void check_python(const PythonStack& stack) {
  if (!stack.empty()) require(!stack_place(stack).text.empty(), "a stack is somewhere");
}

void check_calls(std::string_view text) {
  for (const launcher::WorkerCall& call : launcher::parse_recorded_calls(text)) {
    require(call.group > 0 && call.open <= call.begun, "a call is of a group, and has begun");
    require(call.recent.size() <= 16 && call.recent.size() <= call.begun, "calls are bounded");
    require(is_printable(call.shown) && call.shown.size() <= 48, "a call is short");
    require(is_printable(call.release) && call.release.size() <= 48, "a release is short");
  }
}

void check_notification(std::string_view text) {
  const NotifyMessage message = parse_notify_message(text);
  require(message.status.size() <= 64 + 3, "a status is short");
  require(is_printable(message.status) && message.status.find('\n') == std::string::npos,
          "and one line");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 's':
      check_status(text);
      break;
    case 'l':
      check_log_piece(text);
      break;
    case 't':
      check_stacks(text);
      break;
    case 'p':
      check_stack_lines(text);
      break;
    case 'y':
      check_python(parse_py_spy(text, 7));
      break;
    case 'c':
      check_calls(text);
      break;
    case 'b':
      check_python(parse_traceback(std::string(text)));
      break;
    default:
      check_notification(text);
  }
  return 0;
}
