// SPDX-License-Identifier: Apache-2.0
// One rank of a job whose last rank ends with an error while the others are in a call with it:
//
//     failing_rank HOW CALL
//
// HOW: returns (7), catches (prints an exception, and returns 1), throws. CALL is a row of kCalls.
#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <exception>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using ddp::ProcessGroup;

constexpr const char* kWords = "loss is nan";

struct NamedCall {
  const char* name;
  void (*make)(ProcessGroup& group, std::vector<float>& data, int last);
};

const NamedCall kCalls[] = {
    {"all_reduce", [](auto& group, auto& data, int) { group.all_reduce(data); }},
    {"iall_reduce", [](auto& group, auto& data, int) { group.iall_reduce(data).wait(); }},
    {"barrier", [](auto& group, auto&, int) { group.barrier(); }},
    {"broadcast", [](auto& group, auto& data, int last) { group.broadcast(data, last); }},
    {"recv", [](auto& group, auto& data, int last) { group.recv(data, last); }},
    {"send", [](auto& group, auto& data, int last) { group.send(data, last); }},
    {"split", [](auto& group, auto&, int) { (void)group.split(0); }},
    {"nothing", [](auto&, auto&, int) { ::pause(); }},
};

int run(const std::string& how, const NamedCall& call) {
  ProcessGroup group = ddprun::tests::join();
  const int last = group.size() - 1;
  std::vector<float> data(1 << 20, 1);
  const bool is_first_call = std::getenv("FIRST_CALL") != nullptr;
  if (!is_first_call) group.all_reduce(data);
  if (group.rank() != last) {
    call.make(group, data, last);
    return 0;
  }
  if (how != "returns") throw std::runtime_error(kWords);
  std::fprintf(stderr, "%s\n", kWords);
  return 7;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string how = argv[1];
  const NamedCall* call = nullptr;
  for (const NamedCall& each : kCalls) {
    if (argv[2] == std::string(each.name)) call = &each;
  }
  if (call == nullptr) return 2;
  if (how == "throws") return run(how, *call);
  try {
    return run(how, *call);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
