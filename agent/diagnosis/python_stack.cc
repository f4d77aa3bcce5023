// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/python_stack.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "base/number.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostStackFrames = 200;  // a recursion has more

Json member_of(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found == json.end() ? Json() : *found;
}

std::string text_in(const Json& json, const char* name) {
  const Json value = member_of(json, name);
  return value.is_string() ? value.get<std::string>() : "";
}

int number_in(const Json& json, const char* name) {
  const Json value = member_of(json, name);
  return value.is_number_integer() ? value.get<int>() : 0;
}

PythonStack stack_of(const Json& thread) {
  PythonStack stack;
  const Json frames = member_of(thread, "frames");
  if (!frames.is_array()) return stack;
  for (const Json& frame : frames) {
    if (stack.size() == kMostStackFrames) break;
    stack.push_back({text_in(frame, "name"), text_in(frame, "filename"), number_in(frame, "line")});
  }
  return stack;
}

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// Whether the frame is not of the program itself.
bool is_library(const PythonFrame& frame) {
  return has_part(frame.file, "/lib/python") || has_part(frame.file, "-packages/") ||
         frame.file.starts_with('<');
}

/// Whether the frame is a collective of PyTorch, and not a wrapper of one: users know its name.
bool is_collective(const PythonFrame& frame) {
  return has_part(frame.file, "torch/distributed/") &&
         !has_part(frame.file, "torch/distributed/checkpoint") &&
         !frame.function.starts_with('_') && frame.function != "wrapper" &&
         !has_part(frame.function, "<locals>");
}

/// The frame in a line such as `  File "/home/me/train.py", line 88, in train`.
std::optional<PythonFrame> frame_in(const std::string& line) {
  constexpr std::string_view kFile = "  File \"", kNumber = "\", line ", kFunction = ", in ";
  const size_t file = line.find(kFile);
  const size_t number = line.find(kNumber, file);
  const size_t function = line.find(kFunction, number);
  if (function == line.npos) return std::nullopt;
  PythonFrame frame{line.substr(function + kFunction.size()),
                    line.substr(file + kFile.size(), number - file - kFile.size())};
  frame.line = leading_number<int>(line.substr(number + kNumber.size())).value_or(0);
  return frame;
}

std::string base_name(const std::string& file) {
  return file.substr(file.rfind('/') + 1);
}

}  // namespace

PythonStack parse_py_spy(std::string_view json, int pid) {
  const auto threads = parse_bounded(json);
  if (!threads.is_array()) return {};
  for (const Json& thread : threads) {
    if (number_in(thread, "os_thread_id") == pid) return stack_of(thread);
  }
  return {};
}

PythonStack parse_traceback(const std::string& text) {
  PythonStack stack;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (has_part(line, "Traceback (most recent call last)")) stack.clear();
    if (auto frame = frame_in(line)) stack.push_back(std::move(*frame));
  }
  std::ranges::reverse(stack);
  return stack;
}

StackPlace stack_place(const PythonStack& stack) {
  const auto own = std::ranges::find_if_not(stack, is_library);
  const PythonFrame& line = own == stack.end() ? stack.front() : *own;
  const std::string where = " (" + base_name(line.file) + ":" + std::to_string(line.line) + ")";
  // The program called the outermost collective.
  const auto called = std::find_if(std::make_reverse_iterator(own), stack.rend(), is_collective);
  if (called != stack.rend())
    return {StackPlace::Kind::collective, "in " + called->function + where};
  // The program's own backward() looks like the library's, and may wait as well.
  const auto after_own = own == stack.end() ? own : std::next(own);
  const auto has_frame = [&](auto is_one) { return std::any_of(stack.begin(), after_own, is_one); };
  if (has_frame([](const PythonFrame& frame) { return frame.function == "backward"; }))
    return {StackPlace::Kind::backward, "in backward" + where};
  if (has_frame(
          [](const PythonFrame& frame) { return has_part(frame.file, "torch/distributed/"); }))
    return {StackPlace::Kind::unclear, "in a call" + where};
  return {StackPlace::Kind::outside, "in " + line.function + where};
}

}  // namespace ddprun::agent
