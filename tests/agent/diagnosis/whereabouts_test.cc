// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/whereabouts.h"

#include <csignal>

#include "agent/job/first_failure.h"
#include "tests/catch.h"

namespace ddprun::agent {
namespace {

using Kind = rendezvous::WorkerPlace::Kind;
using launcher::ProcessSample;
using std::chrono::milliseconds;

rendezvous::Failure failed(int wait_status, const std::string& stderr_tail,
                           const std::string& exception = "") {
  rendezvous::Failure failure;
  failure.pid = 7;
  failure.wait_status = wait_status;
  failure.stderr_tail = stderr_tail;
  failure.exception = exception;
  return failure;
}

constexpr int kExit1 = 1 << 8;

TEST_CASE("a worker's place follows from its state, its system call and how long it stood still") {
  const auto kind = [](const ProcessSample& sample) { return place_of(3, sample).kind; };
  constexpr milliseconds kLong{9'000};
  constexpr milliseconds kShort{800};
  // state, traced, call, load, still
  CHECK(kind({'S', false, "futex", 0, kLong}) == Kind::waiting);
  CHECK(kind({'S', false, "epoll_wait", 0, kLong}) == Kind::waiting);
  CHECK(kind({'S', false, "call 999", 0, kLong}) == Kind::waiting);
  CHECK(kind({'S', false, "clock_nanosleep", 0, kLong}) == Kind::elsewhere);
  CHECK(kind({'S', false, "wait4", 0, kLong}) == Kind::waiting);
  CHECK(kind({'D', false, "read", 0, kLong}) == Kind::elsewhere);
  CHECK(kind({'T', false, "", 0, kShort}) == Kind::stopped);
  CHECK(kind({'R', false, "", 0.99, kShort}) == Kind::busy);
  // It has just woken up, perhaps to fail; it naps; it has a debugger; or /proc says nothing.
  CHECK(kind({'R', false, "", 0.2, kShort}) == Kind::unknown);
  CHECK(kind({'S', false, "clock_nanosleep", 0, kShort}) == Kind::unknown);
  CHECK(kind({'S', false, "futex", 0, kShort}) == Kind::unknown);
  CHECK(kind({'D', false, "read", 0, kShort}) == Kind::unknown);
  CHECK(kind({'T', true, "", 0, kLong}) == Kind::unknown);
  CHECK(kind({'t', true, "", 0, kLong}) == Kind::unknown);
  CHECK(kind({'S', true, "clock_nanosleep", 0, kLong}) == Kind::unknown);
  CHECK(kind({'S', false, "clock_nanosleep", 0, std::nullopt}) == Kind::unknown);
  CHECK(kind({'S', false, "", 0, kLong}) == Kind::unknown);
  CHECK(kind({'Z', false, "", 0, kLong}) == Kind::unknown);
  CHECK(kind({}) == Kind::unknown);
}

TEST_CASE("a worker that its control group has frozen counts as stopped") {
  launcher::ProcessSample frozen;
  frozen.state = 'D';
  frozen.frozen = true;
  const rendezvous::WorkerPlace place = place_of(3, frozen);
  CHECK(place.kind == rendezvous::WorkerPlace::Kind::stopped);
  CHECK(place.what == "frozen by its control group (as docker pause does)");
}

TEST_CASE("the place of a program without Python is its innermost own function with a line") {
  ProcessStack stack;
  stack.sample.state = 'S';
  stack.sample.call = "pause";
  stack.sample.still = std::chrono::seconds(9);
  stack.native = {
      {"pause", "pause.c:29"}, {"load_batch", "train.cc:4", true}, {"main", "train.cc:6", true}};
  CHECK(place_with_stack(0, stack).what == "asleep (pause) in load_batch (train.cc:4)");
  CHECK(shows_program(stack));
  stack.native = {{"time_sleep", "timemodule.c:2159", true},
                  {"_PyEval_EvalFrameDefault", "ceval.c:9", true}};
  CHECK(place_with_stack(0, stack).what == "asleep (pause)");
  CHECK_FALSE(shows_program(stack));
}

TEST_CASE("a worker that polls for its GPU waits, perhaps in a collective, and is not busy") {
  ProcessStack stack;
  stack.sample = {'R', false, "", 0.99, milliseconds(0)};
  CHECK(place_with_stack(1, stack).kind == Kind::busy);
  stack.in_driver = true;
  const auto place = [&stack] { return place_with_stack(1, stack); };
  CHECK(place().kind == Kind::waiting);
  CHECK(place().what == "waiting for its GPU (its driver)");
  stack.native = {{"", "libcuda.so.580.159.04"}, {"current_step", "train.cc:5", true}};
  CHECK(place().what == "waiting for its GPU (its driver) in current_step (train.cc:5)");
  stack.native = {{"clock_gettime", "[vdso]"},
                  {"", "libcuda.so.580.159.04"},
                  {"cudaStreamSynchronize", "libcudart.so.12"},
                  {"train", "train.cc:5", true}};
  CHECK(place().what == "waiting for its GPU (cudaStreamSynchronize) in train (train.cc:5)");
  stack.python = {{"synchronize", "/v/site-packages/torch/cuda/__init__.py", 9},
                  {"step", "/home/me/train.py", 88}};
  CHECK(place().kind == Kind::waiting);
  CHECK(place().what == "in step (train.py:88), waiting for its GPU (cudaStreamSynchronize)");
  stack.python = {{"all_reduce", "/v/site-packages/torch/distributed/c10d.py", 4},
                  {"step", "/home/me/train.py", 88}};
  CHECK(place().kind == Kind::collective);
  CHECK(place().what == "in all_reduce (train.py:88)");
}

TEST_CASE("in a short hang, a worker that has not run for half of it stands still") {
  ProcessStack stack;
  stack.sample = {'S', false, "pause", 0, milliseconds(4'900)};
  const auto place = [&stack](double quiet) {
    return place_with_stack(0, stack, still_in_hang(std::chrono::duration<double>(quiet)));
  };
  CHECK(place(5.1).kind == Kind::elsewhere);
  CHECK(place(5.1).what == "asleep (pause)");
  CHECK(place(5.1).seconds == 4.9);
  CHECK(place(9).kind == Kind::elsewhere);
  CHECK(place(600).kind == Kind::unknown);
  stack.sample.still = milliseconds(900);
  CHECK(place(1).kind == Kind::elsewhere);
  CHECK(place(5.1).kind == Kind::unknown);
}

TEST_CASE("a place says what the worker does, and for how long if it stands still") {
  const auto asleep = place_of(3, {'S', false, "clock_nanosleep", 0, milliseconds(9'500)});
  CHECK(asleep.ranks == std::vector{3});
  CHECK(asleep.what == "asleep (clock_nanosleep)");
  CHECK(asleep.seconds == 9.5);
  const auto parent = place_of(3, {'S', false, "wait4", 0, milliseconds(9'500)});
  CHECK(parent.what == "waiting for a child process (wait4)");
  const auto busy = place_of(3, {'R', false, "", 1, milliseconds(3)});
  CHECK(busy.what == "busy on a CPU");
  CHECK(busy.seconds == 0);
}

TEST_CASE("a stack shows what a worker waits for") {
  const PythonStack all_reduce = {{"all_reduce", "/v/site-packages/torch/distributed/c10d.py", 4},
                                  {"step", "/home/me/train.py", 88}};
  const PythonStack load = {{"load_batch", "/home/me/data.py", 41}};
  const ProcessSample waits = {'S', false, "futex", 0, milliseconds(9'500)};
  const ProcessSample sleeps = {'S', false, "clock_nanosleep", 0, milliseconds(9'500)};
  CHECK(place_of(3, waits, all_reduce).kind == Kind::collective);
  CHECK(place_of(3, waits, all_reduce).what == "in all_reduce (train.py:88)");
  CHECK(place_of(3, waits, load).kind == Kind::outside);
  CHECK(place_of(3, waits, load).what == "in load_batch (data.py:41), waiting (futex)");
  CHECK(place_of(3, sleeps, load).kind == Kind::elsewhere);
  CHECK(place_of(3, sleeps, load).what == "in load_batch (data.py:41), asleep (clock_nanosleep)");
  CHECK(place_of(3, sleeps, all_reduce).kind == Kind::collective);
  const ProcessSample runs = {'R', false, "", 0.99, milliseconds(1)};
  CHECK(place_of(3, runs, all_reduce).kind == Kind::collective);
  CHECK(place_of(3, runs, load).kind == Kind::computing);
  CHECK(place_of(3, runs).kind == Kind::busy);
  // A worker that has just run may have begun to fail; a stopped one is in no collective.
  CHECK(place_of(3, {'R', false, "", 0.1, milliseconds(1)}, load).kind == Kind::unknown);
  CHECK(place_of(3, {'T', false, "", 0, milliseconds(1)}, all_reduce).kind == Kind::stopped);
}

TEST_CASE("a worker without a GPU that stands still in backward() waits there for others") {
  ProcessStack stack;
  stack.sample = {'S', false, "futex", 0, milliseconds(9'500)};
  stack.python = {{"backward", "/v/site-packages/torch/autograd/__init__.py", 4},
                  {"step", "/home/me/t.py", 88}};
  CHECK(place_with_stack(1, stack).kind == Kind::collective);
  CHECK(place_with_stack(1, stack).what == "in backward (t.py:88)");
  stack.uses_gpu = true;
  CHECK(place_with_stack(1, stack).kind == Kind::waiting);
  stack.sample = {'R', false, "", 0.99, milliseconds(0)};
  CHECK(place_with_stack(1, stack).kind == Kind::busy);
  stack.python = {{"search", "/home/me/t.py", 3}};
  CHECK(place_with_stack(1, stack).kind == Kind::busy);  // it may poll for its GPU
  stack.uses_gpu = false;
  CHECK(place_with_stack(1, stack).kind == Kind::computing);
}

TEST_CASE("workers of which one computes may be awaited if none may compute in a collective") {
  const rendezvous::WorkerPlace computes = {{0}, Kind::computing, "in f (t.py:1), busy on a CPU"};
  const rendezvous::WorkerPlace waits = {{1}, Kind::collective, "in backward (t.py:88)"};
  CHECK(may_be_awaited({computes}));
  CHECK(may_be_awaited({computes, waits}));
  CHECK_FALSE(may_be_awaited({waits}));
  CHECK_FALSE(may_be_awaited({computes, {{1}, Kind::busy, "busy on a CPU"}}));
  CHECK_FALSE(may_be_awaited({computes, {{1}, Kind::unknown, "unknown"}}));
}

TEST_CASE("a file that does not open is a place of its own, and no sleep") {
  const auto place = place_of(3, {'S', false, "openat", 0, milliseconds(9'500)});
  CHECK(place.kind == Kind::elsewhere);
  CHECK(place.what == "waiting (openat)");
}

TEST_CASE("ranks at one place are one group, with the shortest time") {
  const auto groups = grouped({{{4}, Kind::waiting, "waiting (futex)", 9},
                               {{5}, Kind::elsewhere, "asleep (pause)", 7},
                               {{6}, Kind::waiting, "waiting (futex)", 6},
                               {{7}, Kind::waiting, "waiting (poll)", 8}});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].ranks == std::vector{4, 6});
  CHECK(groups[0].seconds == 6);
  CHECK(groups[1].ranks == std::vector{5});
  CHECK(groups[2].ranks == std::vector{7});
}

TEST_CASE("a worker's own word on where it waited counts, unless it was seen elsewhere") {
  std::vector<rendezvous::WorkerPlace> places = {{{0, 1}, Kind::waiting, "waiting (futex)", 9},
                                                 {{2}, Kind::elsewhere, "asleep (pause)", 7},
                                                 {{3}, Kind::unknown, "unknown"}};
  add_waits(places, {{{0}, Kind::collective, "in all_reduce (train.py:88)"},
                     {{2, 3, 4}, Kind::collective, "in all_reduce (train.py:88)"}});
  REQUIRE(places.size() == 3);
  CHECK(places[0].ranks == std::vector{1});
  CHECK(places[1].ranks == std::vector{2});
  CHECK(places[1].kind == Kind::elsewhere);
  CHECK(places[2].ranks == std::vector{0, 3, 4});
  CHECK(places[2].what == "in all_reduce (train.py:88)");
}

TEST_CASE("a failure that mentions a timeout or a lost peer is a consequence") {
  for (const char* words :
       {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed "
        "out waiting 10000ms for recv operation to complete",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
        "peer [127.0.0.1]:35217",
        "RuntimeError: Connection reset by peer",
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 "
        "clients joined.",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
        "trying to connect to (gpu-01, 29500).",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting prematurely.",
        "ddp.Error: ddp: rank 2 lost rank 3 in #9 all_reduce sum float32[10]: its connection ended",
        "BrokenPipeError: [Errno 32] Broken pipe"}) {
    CAPTURE(words);
    CHECK(is_consequence(failed(kExit1, std::string("Traceback:\n  x\n") + words + "\n")));
    CHECK(is_consequence(failed(kExit1, "", words)));
  }
  const std::string watchdog =
      "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
      "timeout\n";
  std::string stack;
  for (int i = 0; i < 30; ++i) stack += "frame #" + std::to_string(i) + ": c10::Error\n";
  CHECK(is_consequence(failed(SIGABRT, watchdog + stack)));
  CHECK(is_consequence(failed(SIGPIPE, "")));
  // The worker had reported that and was ending when it was stopped with the others.
  CHECK(is_consequence(failed(SIGTERM, "", "all_reduce timed out")));
}

TEST_CASE("a failure with a reason of its own is no consequence") {
  CHECK_FALSE(is_consequence(failed(kExit1, "")));
  CHECK_FALSE(is_consequence(failed(kExit1, "step 812: loss nan\n")));
  CHECK_FALSE(is_consequence(failed(kExit1, "ModuleNotFoundError: No module named 'x'\n")));
  CHECK_FALSE(is_consequence(failed(SIGSEGV, "Connection reset by peer\n")));
  CHECK_FALSE(is_consequence(failed(SIGKILL, "Timed out\n")));
  CHECK_FALSE(is_consequence(failed(SIGABRT, "free(): invalid pointer\n")));
  CHECK_FALSE(is_consequence(
      failed(SIGABRT,
             "[rank0]:[E ProcessGroupNCCL.cpp:2119] [Rank 0] Process group watchdog thread "
             "terminated with exception: CUDA error: device-side assert triggered\n"
             "terminate called after throwing an instance of 'c10::DistBackendError'\n"
             "  what():  [Rank 0] Process group watchdog thread terminated with exception: "
             "CUDA error: device-side assert triggered\n")));
  // The words are old, or come before the exception of the error file.
  CHECK_FALSE(
      is_consequence(failed(kExit1, "Connection reset by peer, retrying\na\nb\nc\nKeyError: 3\n")));
  CHECK_FALSE(is_consequence(failed(kExit1, "a request timed out\n", "KeyError: 3")));
  rendezvous::Failure known = failed(kExit1, "timed out\n");
  known.cause = "out of memory";
  CHECK_FALSE(is_consequence(known));
  rendezvous::Failure never_ran = failed(127 << 8, "timed out\n");
  never_ran.pid = 0;
  CHECK_FALSE(is_consequence(never_ran));
}

}  // namespace
}  // namespace ddprun::agent
