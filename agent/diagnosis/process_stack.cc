// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/process_stack.h"

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

Json json_of(const launcher::ProcessSample& sample) {
  Json json = {{"state", std::string(1, sample.state)},
               {"traced", sample.traced},
               {"frozen", sample.frozen},
               {"call", sample.call},
               {"load", sample.load}};
  if (sample.still) json["still_ms"] = sample.still->count();
  return json;
}

Json json_of(const launcher::GpuWait& wait) {
  return {{"tid", wait.tid},         {"nccl", wait.in_nccl},  {"process", wait.process_seconds},
          {"cpu", wait.cpu_seconds}, {"before", wait.before}, {"after", wait.after},
          {"top", wait.top},         {"begin", wait.begin},   {"blocks", wait.blocks}};
}

/// A member of `json`; `otherwise` if it is missing or of another type.
template <class T>
T value_in(const Json& json, const char* name, T otherwise) {
  const auto found = json.find(name);
  if (found == json.end()) return otherwise;
  const bool fits = std::is_same_v<T, std::string> ? found->is_string()
                    : std::is_same_v<T, bool>      ? found->is_boolean()
                    : std::is_floating_point_v<T>  ? found->is_number()
                                                   : found->is_number_integer();
  return fits ? found->get<T>() : otherwise;
}

launcher::ProcessSample sample_in(const Json& json) {
  launcher::ProcessSample sample;
  const std::string state = value_in<std::string>(json, "state", "?");
  sample.state = state.empty() ? '?' : state.front();
  sample.traced = value_in(json, "traced", false);
  sample.frozen = value_in(json, "frozen", false);
  sample.call = value_in<std::string>(json, "call", "");
  sample.load = value_in(json, "load", 0.0);
  const auto still = value_in<std::int64_t>(json, "still_ms", -1);
  if (still >= 0) sample.still = std::chrono::milliseconds(still);
  return sample;
}

/// Makes a frame of each object in the list `name`.
template <class Frame, class Make>
std::vector<Frame> frames_in(const Json& json, const char* name, Make make) {
  std::vector<Frame> frames;
  const auto list = json.find(name);
  if (list == json.end() || !list->is_array()) return frames;
  for (const Json& frame : *list) {
    if (frame.is_object()) frames.push_back(make(frame));
  }
  return frames;
}

ProcessStack stack_in(const Json& json) {
  ProcessStack stack;
  stack.sample = sample_in(json);
  stack.wait_channel = value_in<std::string>(json, "wait_channel", "");
  stack.python = frames_in<PythonFrame>(json, "python", [](const Json& frame) {
    return PythonFrame{value_in<std::string>(frame, "name", ""),
                       value_in<std::string>(frame, "file", ""), value_in(frame, "line", 0)};
  });
  stack.native = frames_in<launcher::NativeCall>(json, "native", [](const Json& frame) {
    return launcher::NativeCall{value_in<std::string>(frame, "name", ""),
                                value_in<std::string>(frame, "file", ""),
                                value_in(frame, "own", false)};
  });
  stack.waits = frames_in<launcher::GpuWait>(json, "waits", [](const Json& wait) {
    return launcher::GpuWait{value_in(wait, "tid", 0),
                             value_in(wait, "nccl", false),
                             value_in(wait, "cpu", 0.0),
                             value_in(wait, "process", 0.0),
                             value_in<std::uint64_t>(wait, "before", 0),
                             value_in<std::uint64_t>(wait, "after", 0),
                             value_in<std::uint64_t>(wait, "top", 0),
                             value_in<std::uint64_t>(wait, "begin", 0),
                             value_in<std::string>(wait, "blocks", "")};
  });
  stack.in_driver = value_in(json, "in_driver", false);
  stack.uses_gpu = value_in(json, "uses_gpu", false);
  return stack;
}

std::string text_line(const Json& json) {
  return json_text(json) + "\n";
}

/// "waiting (futex)"; with the kernel's own function if that says more.
std::string state_text(const ProcessStack& stack) {
  const launcher::ProcessSample& sample = stack.sample;
  const std::string call = sample.call.empty() ? "" : " (" + sample.call + ")";
  const std::string channel = stack.wait_channel.empty() ? "" : ", " + stack.wait_channel;
  if (sample.traced) return "held by a debugger or profiler";
  if (sample.frozen) return "frozen by its control group";
  switch (sample.state) {
    case 'R':
      return stack.in_driver ? "waiting for its GPU" : "running";
    case 'S':
      return "waiting" + (call.empty() ? channel : call);
    case 'D':
      return "in uninterruptible sleep (state D)" + call + channel;
    case 'T':
      return "stopped by a signal (state T)";
    case 'Z':
      return "its main thread has ended";
    case 'X':
    case '?':
      return "ended";
    default:
      return std::string("in state ") + sample.state;
  }
}

bool is_interpreter(const launcher::NativeCall& frame) {
  return frame.where.starts_with("libpython") || frame.where.starts_with("python") ||
         frame.function.starts_with("_PyEval_") || frame.function.starts_with("PyEval_");
}

std::string frame_text(const launcher::NativeCall& frame) {
  return (frame.function.empty() ? "??" : frame.function) +
         (frame.where.empty() ? "" : " (" + frame.where + ")");
}

}  // namespace

bool shows_program(const ProcessStack& stack) {
  if (!stack.python.empty()) return true;
  return !stack.native.empty() && std::ranges::none_of(stack.native, is_interpreter);
}

std::string gpu_call(const ProcessStack& stack) {
  if (!stack.in_driver) return "";
  const auto call = std::ranges::find_if(stack.native, [](const launcher::NativeCall& frame) {
    return !frame.is_own && frame.function.starts_with("cu");
  });
  return call == stack.native.end() ? "its driver" : call->function;
}

std::string line_of(int pid, const ProcessStack& stack) {
  Json json = json_of(stack.sample);
  json["pid"] = pid;
  json["wait_channel"] = stack.wait_channel;
  json["in_driver"] = stack.in_driver;
  json["uses_gpu"] = stack.uses_gpu;
  for (const launcher::GpuWait& wait : stack.waits) json["waits"].push_back(json_of(wait));
  for (const PythonFrame& frame : stack.python) {
    json["python"].push_back(
        {{"name", frame.function}, {"file", frame.file}, {"line", frame.line}});
  }
  for (const launcher::NativeCall& frame : stack.native) {
    json["native"].push_back(
        {{"name", frame.function}, {"file", frame.where}, {"own", frame.is_own}});
  }
  return text_line(json);
}

std::string line_of_note(const std::string& note) {
  return text_line({{"note", note}});
}

ProcessStacks read_stack_lines(std::string_view lines) {
  ProcessStacks stacks;
  for (size_t end = lines.find('\n'); end != lines.npos; end = lines.find('\n')) {
    const auto json = parse_bounded(lines.substr(0, end));
    lines.remove_prefix(end + 1);
    if (!json.is_object()) continue;
    const auto pid = value_in<int>(json, "pid", 0);
    if (pid > 0) stacks.of[pid] = stack_in(json);
    const std::string note = value_in<std::string>(json, "note", "");
    if (!note.empty()) stacks.notes.push_back(note);
  }
  return stacks;
}

RankStack rank_stack(int rank, const ProcessStack& stack) {
  RankStack result;
  result.rank = rank;
  for (auto frame = stack.python.rbegin(); frame != stack.python.rend(); ++frame) {
    result.frames.push_back(frame->function + " (" + file_name(frame->file) + ":" +
                            std::to_string(frame->line) + ")");
  }
  const auto interpreter = std::ranges::find_if(stack.native, is_interpreter);
  for (auto frame = interpreter; frame != stack.native.begin(); --frame) {
    result.frames.push_back(frame_text(*std::prev(frame)));
  }
  result.state = state_text(stack);
  const bool stands = stack.sample.still && stack.sample.state != 'R';
  if (stands) result.seconds = std::chrono::duration<double>(*stack.sample.still).count();
  return result;
}

}  // namespace ddprun::agent
