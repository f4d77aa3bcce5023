// SPDX-License-Identifier: Apache-2.0
#include "ddp/trace.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <unistd.h>

#include "base/json.h"
#include "collectives/failure/flight_recorder.h"
#include "collectives/failure/trace.h"
#include "ddp/error.h"

namespace ddp {
namespace {

using ddprun::OrderedJson;

using internal::Call;
using internal::FlightRecorder;
using std::chrono::steady_clock;
using std::chrono::system_clock;

/// Seconds since 1970.
double seconds(steady_clock::time_point time, steady_clock::time_point now,
               system_clock::time_point wall) {
  return std::chrono::duration<double>(wall.time_since_epoch() - (now - time)).count();
}

const char* name(FlightRecorder::State state) {
  switch (state) {
    case FlightRecorder::State::begun:
      return "begun";
    case FlightRecorder::State::done:
      return "done";
    case FlightRecorder::State::failed:
      break;
  }
  return "failed";
}

bool moves_data(const Call& call) {
  return call.operation != internal::Operation::barrier;
}

OrderedJson to_json(const Call& call) {
  OrderedJson json = {{"number", call.number}, {"operation", internal::name(call.operation)}};
  if (!moves_data(call)) return json;
  if (call.operation == internal::Operation::batch_send_recv) {
    json["transfers"] = call.count;
    return json;
  }
  json["type"] = internal::name(static_cast<DataType>(call.type));
  json["count"] = call.count;
  if (internal::reduces(call.operation)) {
    json["reduce"] = internal::name(static_cast<ReduceOp>(call.reduce));
  }
  const bool has_peer = internal::is_point_to_point(call.operation);
  if (internal::has_root(call.operation)) json[has_peer ? "peer" : "root"] = call.root;
  if (has_peer) json["tag"] = call.tag;
  return json;
}

OrderedJson trace(const std::string& reason) {
  const auto now = steady_clock::now();
  const auto wall = system_clock::now();
  const FlightRecorder& recorder = FlightRecorder::of_process();
  OrderedJson groups = OrderedJson::array();
  for (const auto& [number, group] : recorder.groups()) {
    groups.push_back({{"group", number},
                      {"name", group.name},
                      {"backend", group.backend},
                      {"rank", group.rank},
                      {"ranks", group.ranks}});
  }
  OrderedJson calls = OrderedJson::array();
  for (const auto& entry : recorder.entries()) {
    OrderedJson call = {{"group", entry.group}};
    call.update(to_json(entry.call));
    call["state"] = name(entry.state);
    call["begun"] = seconds(entry.begun, now, wall);
    if (entry.state != FlightRecorder::State::begun) {
      call["ended"] = seconds(entry.ended, now, wall);
    }
    calls.push_back(std::move(call));
  }
  return {{"process", ::getpid()},
          {"written", seconds(now, now, wall)},
          {"reason", reason},
          {"groups", std::move(groups)},
          {"calls", std::move(calls)}};
}

/// Does not follow a link: the name can be guessed, and another user's file is not ours.
bool write_new_file(const std::string& path, const std::string& text) {
  std::remove(path.c_str());
  std::FILE* const file = std::fopen(path.c_str(), "wxe");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

void write(const std::string& path, const std::string& reason) {
  static std::mutex one_at_a_time;  // several groups may fail at once, and share the file
  const std::lock_guard lock(one_at_a_time);
  // The name has the process id: ranks on several hosts may write to one folder.
  const std::string fresh = path + "." + std::to_string(::getpid()) + ".tmp";
  const std::string text = ddprun::json_text(trace(reason), 1) + '\n';
  if (write_new_file(fresh, text) && std::rename(fresh.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  std::remove(fresh.c_str());
  throw Error(ErrorKind::system,
              "ddp: cannot write the trace " + path + ": " + std::strerror(error));
}

}  // namespace

void write_trace(const std::string& path) {
  write(path, "asked for");
}

namespace internal {

void write_trace_of_failure(int rank, const std::string& reason) noexcept {
  const char* const folder = std::getenv("DDP_TRACE_DIR");
  if (folder == nullptr || *folder == '\0') return;
  try {
    const std::filesystem::path directory(folder);
    std::error_code exists;
    std::filesystem::create_directories(directory, exists);
    write(directory / ("rank_" + std::to_string(rank) + ".json"), reason);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

}  // namespace internal
}  // namespace ddp
