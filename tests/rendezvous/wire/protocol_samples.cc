// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/wire/protocol_samples.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::rendezvous {

using std::chrono::milliseconds;

std::string body_of(const std::string& bytes) {
  FrameReader reader;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.feed(bytes.substr(i, 1));
    const bool whole = must(reader.next()).has_value();
    if (whole) FAIL("a frame before its last byte");
  }
  reader.feed(bytes.substr(bytes.size() - 1));
  const std::optional<std::string> body = must(reader.next());
  REQUIRE(body);
  CHECK(body->size() <= kMaxFrame);
  return *body;
}

Failure sample_failure() {
  Failure failure;
  failure.rank = 7;
  failure.wait_status = 9;
  failure.pid = 4711;
  failure.seconds = 41.25;
  failure.host = "gpu-07";
  failure.cause = "out of memory";
  failure.stderr_tail = "line \"one\"\nline\ttwo\n";
  failure.exception = "RuntimeError: loss is nan";
  failure.traceback = "  File \"train.py\", line 12, in train\nRuntimeError: loss is nan";
  failure.log_folder = "/logs/none_a1/attempt_0/3";
  return failure;
}

JoinRequest sample_request() {
  JoinRequest request;
  request.local_size = 8;
  request.node_rank = 3;
  request.host = "gpu-07";
  request.is_host = true;
  request.hosting = true;
  request.store_port = 41237;
  request.cannot_run = "cannot run ./train";
  request.command = "./train --lr 1";
  request.command_hash = 1ULL << 52;
  request.role = "trainer";
  request.last_round = 4;
  request.last_master = "9876fedc";
  request.last_node_rank = 2;
  request.last_guests = 6;
  request.last_hosted = true;
  request.last_restarts = 1;
  request.restarts = 2;
  request.unreported_failure = sample_failure();
  request.worker_exits.failed = {{5, "exit 1"}, {6, "killed by SIGABRT", true, true}};
  request.worker_exits.stopped = {0, 1, 2};
  request.worker_exits.killed = {2};
  request.worker_exits.signal = "SIGTERM";
  request.worker_exits.seconds = 0.25;
  request.worker_exits.calls = {{.group = 7,
                                 .begun = 121,
                                 .open = 121,
                                 .shown = "#121 all_reduce[8]",
                                 .ranks = {0, 2},
                                 .recent = {"#120 barrier", "#121 all_reduce[8]"},
                                 .failed = true,
                                 .release = "PyTorch 2.15.0"},
                                {.group = 7, .begun = 120, .shown = "", .ranks = {1}}};
  request.worker_exits.places = {
      {{0, 2}, WorkerPlace::Kind::waiting, "waiting (futex)", 9.5},
      {{1}, WorkerPlace::Kind::stopped, "stopped by a signal (state T)", 0}};
  return request;
}

message::Hello sample_hello() {
  return {"job42", 2, 4, "gpu-07", "0123abcd", 17, "9876fedc/1", 3, {"10.1.0.7", "fe80::7"}};
}

reply::Welcome sample_welcome() {
  return {"9876fedc",           true, 23,           milliseconds(2'000),
          milliseconds(10'000), 3,    "9876fedc/1", milliseconds(600'000)};
}

Layout sample_layout() {
  Layout layout;
  layout.round = 2;
  layout.restarts = 1;
  layout.node_rank = 1;
  layout.node_count = 3;
  layout.first_rank = 8;
  layout.local_size = 4;
  layout.world_size = 20;
  layout.guests = 2;
  layout.role = RolePlace{3, 9};
  layout.store_port = 41237;
  layout.store_host = "10.0.0.7";
  return layout;
}

}  // namespace ddprun::rendezvous
