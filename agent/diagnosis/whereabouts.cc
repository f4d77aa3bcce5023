// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/whereabouts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>

namespace ddprun::agent {
namespace {

using Kind = rendezvous::WorkerPlace::Kind;

constexpr double kBusy = 0.75;  // a process that has just woken up to fail has less

/// No collective waits in these calls: no message ends them.
constexpr std::array<std::string_view, 9> kSleeps = {"nanosleep",  "clock_nanosleep", "pause",
                                                     "sigsuspend", "sigtimedwait",    "fsync",
                                                     "fdatasync",  "flock",           "openat"};

std::string what_of(const launcher::ProcessSample& sample, Kind kind) {
  const std::string call = sample.call.empty() ? "" : " (" + sample.call + ")";
  if (sample.frozen) return "frozen by its control group (as docker pause does)";
  if (kind == Kind::stopped) return "stopped by a signal (state T)";
  if (sample.state == 'D') return "in uninterruptible sleep (state D, a disk or device)";
  if (sample.call.starts_with("wait")) return "waiting for a child process" + call;
  const bool sleeps = kind == Kind::elsewhere && sample.call != "openat" && sample.call != "flock";
  if (sleeps) return "asleep" + call;
  if (kind == Kind::elsewhere) return "waiting" + call;
  if (kind == Kind::waiting) return "waiting" + call;
  return kind == Kind::busy ? "busy on a CPU" : "unknown";
}

Kind kind_of(const launcher::ProcessSample& sample, std::chrono::milliseconds still) {
  if ((sample.state == 'T' || sample.frozen) && !sample.traced) return Kind::stopped;
  if (sample.traced) return Kind::unknown;  // it may stand still because of its debugger
  if (sample.state == 'R') return sample.load > kBusy ? Kind::busy : Kind::unknown;
  if (!sample.still || *sample.still < still) return Kind::unknown;
  if (sample.state == 'D') return Kind::elsewhere;
  if (sample.state != 'S' || sample.call.empty()) return Kind::unknown;
  return std::ranges::count(kSleeps, sample.call) > 0 ? Kind::elsewhere : Kind::waiting;
}

/// " in load_batch (train.cc:41)"; empty: the program has no debug information.
std::string native_text(const std::vector<launcher::NativeCall>& stack) {
  const auto own = std::ranges::find_if(stack, &launcher::NativeCall::is_own);
  return own == stack.end() ? "" : " in " + own->function + " (" + own->where + ")";
}

void add_stack(rendezvous::WorkerPlace& place, const StackPlace& at) {
  const bool waits_backward = place.kind == Kind::waiting && at.kind == StackPlace::Kind::backward;
  if (at.kind == StackPlace::Kind::collective || waits_backward) {
    place.kind = Kind::collective;  // also if it polls, with pauses or without
    place.what = at.text;
    return;
  }
  if (at.kind == StackPlace::Kind::outside) {
    if (place.kind == Kind::waiting) place.kind = Kind::outside;
    if (place.kind == Kind::busy) place.kind = Kind::computing;
  }
  place.what = at.text + ", " + place.what;
}

/// A worker that looks busy only polls its GPU. No stack shows the GPU's collective.
rendezvous::WorkerPlace waiting_for_gpu(rendezvous::WorkerPlace place, const std::string& call,
                                        const PythonStack& stack) {
  if (place.kind == Kind::collective) return place;
  place.kind = Kind::waiting;
  place.what = "waiting for its GPU (" + call + ")";
  if (!stack.empty()) place.what = stack_place(stack).text + ", " + place.what;
  return place;
}

/// Its thread may wait in `backward`, or run, because of its GPU and not for other ranks.
rendezvous::WorkerPlace perhaps_on_gpu(rendezvous::WorkerPlace place, const ProcessStack& stack) {
  const bool in_backward =
      !stack.python.empty() && stack_place(stack.python).kind == StackPlace::Kind::backward;
  if (place.kind == Kind::collective && in_backward) place.kind = Kind::waiting;
  if (place.kind == Kind::computing) place.kind = Kind::busy;
  return place;
}

}  // namespace

rendezvous::WorkerPlace place_of(int rank, const launcher::ProcessSample& sample,
                                 const PythonStack& stack, std::chrono::milliseconds still) {
  const Kind kind = kind_of(sample, still);
  const auto stood = sample.still.value_or(std::chrono::milliseconds(0));
  const bool stands = kind != Kind::unknown && kind != Kind::busy;
  rendezvous::WorkerPlace place = {{rank},
                                   kind,
                                   what_of(sample, kind),
                                   stands ? std::chrono::duration<double>(stood).count() : 0};
  if (!stack.empty() && (stands || kind == Kind::busy) && kind != Kind::stopped)
    add_stack(place, stack_place(stack));
  return place;
}

rendezvous::WorkerPlace place_with_stack(int rank, const ProcessStack& stack,
                                         std::chrono::milliseconds still) {
  rendezvous::WorkerPlace place = place_of(rank, stack.sample, stack.python, still);
  if (const std::string call = gpu_call(stack); !call.empty() && place.kind != Kind::stopped) {
    place = waiting_for_gpu(std::move(place), call, stack.python);
  }
  const bool tells = stack.python.empty() && shows_program(stack) && place.kind != Kind::stopped;
  if (tells) place.what += native_text(stack.native);
  return stack.uses_gpu ? perhaps_on_gpu(std::move(place), stack) : place;
}

/// Half of `quiet` is enough: a worker may run for the last time a little after the hang begins,
/// and the hang may be shorter than kStandsStill.
std::chrono::milliseconds still_in_hang(std::chrono::duration<double> quiet) {
  const auto half = std::chrono::duration_cast<std::chrono::milliseconds>(quiet / 2);
  return std::min(half, kStandsStill);
}

rendezvous::WorkerPlace with_calls(rendezvous::WorkerPlace place,
                                   const std::vector<launcher::WorkerCall>& calls) {
  const std::string text = launcher::call_text(calls);
  if (text.empty() || place.kind == Kind::stopped) return place;
  const bool is_inside = std::ranges::any_of(calls, [](auto& call) { return call.open > 0; });
  place.what = place.kind == Kind::unknown ? text : text + ", " + place.what;
  if (is_inside) place.kind = Kind::collective;
  return place;
}

void add_calls(std::vector<rendezvous::CallPlace>& all, int rank,
               const std::vector<launcher::WorkerCall>& calls) {
  if (calls.empty()) return;
  for (rendezvous::CallPlace& place : all) std::erase(place.ranks, rank);
  std::erase_if(all, [](auto& place) { return place.ranks.empty(); });
  for (const launcher::WorkerCall& call : calls) {
    const auto same = std::ranges::find_if(all, [&call](const rendezvous::CallPlace& place) {
      return place.group == call.group && place.begun == call.begun && place.open == call.open &&
             place.shown == call.shown && place.recent == call.recent &&
             place.failed == call.failed && place.release == call.release;
    });
    if (same == all.end()) {
      all.push_back({.group = call.group,
                     .begun = call.begun,
                     .open = call.open,
                     .shown = call.shown,
                     .ranks = {rank},
                     .recent = call.recent,
                     .failed = call.failed,
                     .release = call.release});
    } else {
      same->ranks.push_back(rank);
    }
  }
}

bool may_be_awaited(const std::vector<rendezvous::WorkerPlace>& places) {
  const auto has = [&places](Kind kind) {
    return std::ranges::any_of(places, [kind](const auto& place) { return place.kind == kind; });
  };
  return has(Kind::computing) && !has(Kind::busy) && !has(Kind::unknown);
}

std::vector<rendezvous::WorkerPlace> grouped(const std::vector<rendezvous::WorkerPlace>& places) {
  std::vector<rendezvous::WorkerPlace> groups;
  for (const rendezvous::WorkerPlace& place : places) {
    const auto same = std::ranges::find_if(groups, [&place](const rendezvous::WorkerPlace& group) {
      return group.kind == place.kind && group.what == place.what;
    });
    if (same == groups.end()) {
      groups.push_back(place);
      continue;
    }
    same->ranks.insert(same->ranks.end(), place.ranks.begin(), place.ranks.end());
    same->seconds = std::min(same->seconds, place.seconds);
  }
  return groups;
}

void add_waits(std::vector<rendezvous::WorkerPlace>& places,
               const std::vector<rendezvous::WorkerPlace>& waits) {
  for (const rendezvous::WorkerPlace& place : waits) {
    for (const int rank : place.ranks) {
      const auto seen = std::ranges::find_if(places, [rank](const rendezvous::WorkerPlace& each) {
        return std::ranges::count(each.ranks, rank) > 0;
      });
      if (seen != places.end() && seen->kind != Kind::waiting && seen->kind != Kind::unknown)
        continue;
      if (seen != places.end()) std::erase(seen->ranks, rank);
      places.push_back({{rank}, place.kind, place.what});
    }
  }
  std::erase_if(places, [](auto& place) { return place.ranks.empty(); });
  places = grouped(places);
}

}  // namespace ddprun::agent
