// SPDX-License-Identifier: Apache-2.0
// Each parser of bytes that another process wrote takes a time that is linear in them: a process
// that sends the most that is allowed holds up the event loop no longer than its bytes are worth.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "agent/ask/log_piece.h"
#include "agent/ask/status.h"
#include "agent/diagnosis/process_stack.h"
#include "agent/diagnosis/python_stack.h"
#include "agent/diagnosis/stacks.h"
#include "agent/job/error_file.h"
#include "agent/mpi/pmi1_server.h"
#include "agent/progress/notify_message.h"
#include "agent/worker/timer_request.h"
#include "cli/doctor/json.h"
#include "collectives/little_endian.h"
#include "collectives/training/safetensors.h"
#include "launcher/output/line_queue.h"
#include "launcher/process/recorded_calls.h"
#include "remote/hosts.h"
#include "remote/launch_order.h"
#include "rendezvous/etcd/messages.h"
#include "rendezvous/wire/control_frames.h"
#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"
#include "tests/linear/steps.h"

using namespace ddprun;

namespace {

using Parse = std::function<void(std::string_view)>;

/// A text of many pieces; each '#' of a piece is its number.
struct Shape {
  std::string begin;
  std::string piece;
  std::string end;

  std::string text(int pieces) const {
    std::string all = begin;
    for (int i = 0; i < pieces; ++i) {
      for (const char c : piece) c == '#' ? all += std::to_string(100'000 + i) : all += c;
    }
    return all + end;
  }
};

std::uint64_t steps_of(const Parse& parse, const std::string& text) {
  const std::uint64_t before = tests::steps();
  parse(text);
  return tests::steps() - before;
}

/// Maps cost a little more for each element if there are more of them, and so does a number that is
/// too large to be one. A time that grows with the square would be 64 times as long.
void check_linear(const Parse& parse, const Shape& shape) {
  constexpr int kFew = 250, kTimes = 8;
  INFO(shape.begin << " " << shape.piece << " " << shape.end);
  const std::uint64_t few = steps_of(parse, shape.text(kFew));
  const std::uint64_t many = steps_of(parse, shape.text(kTimes * kFew));
  CHECK(few > 0);
  CHECK(many < 3 * kTimes * few);
}

/// Shapes of any JSON, also within a member of the object that a parser expects.
void check_json(const Parse& parse, const std::string& begin, const std::string& end) {
  for (const char* piece :
       {"{},", "[],", "0,", "\"\",", "1e5,", "[[[]]],", "{\"a\":{\"b\":0}},", "[0,\"a\",{}],"}) {
    check_linear(parse, {begin + "[", piece, "0]" + end});
  }
  check_linear(parse, {begin + "{", "\"#\":{},", "\"z\":0}" + end});
  check_linear(parse, {begin + "{", "\"a\":{},", "\"z\":0}" + end});
  for (const char* piece : {"\\u00e4", "\\\"", "\xc3\xa4", "a"}) {
    check_linear(parse, {begin + "\"", piece, "\"" + end});
  }
  for (const char* piece : {"1", "[", "{\"\":", " "}) check_linear(parse, {begin, piece, end});
}

std::string node_stacks(const std::string& list) {
  return R"({"hosts":[],"notes":[],"stacks":)" + list + "}";
}

std::string safetensors(std::string_view text) {
  std::string bytes;
  ddp::internal::put_little_endian(bytes, std::uint64_t{text.size()});
  return bytes.append(text);
}

}  // namespace

TEST_CASE("messages between agent and master are decoded in linear time") {
  check_json(rendezvous::decode_message, "", "");
  check_json(rendezvous::decode_message, R"({"type":"join","host":)", "}");
  check_json(rendezvous::decode_first_message, R"({"type":"hello","run_id":)", "}");
  check_json(rendezvous::decode_reply, R"({"type":"node_list","after":0,"nodes":)", "}");
  const Parse read_frames = [](std::string_view bytes) {
    rendezvous::FrameReader frames;
    frames.feed(bytes);
    for (auto body = frames.next(); body && *body; body = frames.next()) {
    }
  };
  check_linear(read_frames, {"", std::string("\0\0\0\1x", 5), ""});
}

TEST_CASE("etcd's answers are decoded in linear time") {
  using namespace rendezvous::etcd;
  const Parse decode_any = [](std::string_view body) {
    decode(request::Look{}, body);
    decode(request::Renew{}, body);
    decode_error(body);
    decode_login(body);
    decode_master(body);
    decode_state(body);
  };
  check_json(decode_any, "", "");
  check_json(decode_any, R"({"header":{},"responses":[{"response_range":{"kvs":[)", "]}}]}");
}

TEST_CASE("answers of other nodes are read in linear time") {
  const Parse stacks = [](std::string_view text) { agent::parse_stacks(text, 0, 8); };
  check_json(agent::ask::status_in, "", "");
  check_json(agent::ask::status_in, R"({"nodes":[{"host":"a","ranks":)", "}]}");
  check_json(agent::ask::log_piece_in, R"({"rank":0,"files":[],"text":)", "}");
  check_json(stacks, R"({"notes":)", "}");
  check_json(stacks, R"({"hosts":)", "}");
  check_linear(stacks, {node_stacks("["), R"({"at":"f#","ranks":"0"},)", "0]}"});
  check_linear(stacks, {R"({"notes":[)", "\"n#\",", "0]}"});
  check_linear(stacks, {R"({"stacks":[{"at":"f","ranks":")", "0-7,", R"("}]})"});
}

TEST_CASE("output of helpers and workers is read in linear time") {
  const Parse dump = [](std::string_view text) { agent::parse_py_spy(text, 7); };
  const Parse traceback = [](std::string_view text) { agent::parse_traceback(std::string(text)); };
  const Parse error_file = [](std::string_view text) {
    rendezvous::Failure failure;
    failure.exception = "x";
    agent::error_file_for_caller(failure, text, 0);
    agent::parse_error_file(text);
  };
  check_json(dump, "", "");
  check_json(launcher::parse_recorded_calls, "", "");
  check_json(launcher::parse_recorded_calls, R"([{"group":1,"begun":9,"open":0,"recent":)", "}]");
  check_linear(launcher::parse_recorded_calls,
               {"[", R"({"group":#,"begun":0,"open":0,"recent":[]},)", "0]"});
  check_json(dump, R"([{"os_thread_id":7,"frames":)", "}]");
  check_linear(traceback, {"", "  File \"a.py\", line 1, in f\n", ""});
  check_linear(traceback, {"", "  File \"", ""});
  check_linear(traceback, {"", "\", line 1, in ", ""});
  check_json(error_file, "", "");
  check_json(error_file, R"({"message":{"message":"x","extraInfo":)", "}}");
  check_json(agent::read_stack_lines, R"({"pid":7,"python":)", "}\n");
  check_linear(agent::read_stack_lines, {"", "{\"pid\":#,\"native\":[{}]}\n", ""});
  check_linear(agent::read_stack_lines, {"", "{\"note\":\"#\"}\n", ""});
  check_json(agent::parse_timer_request, R"({"pid":1,"scope_id":)", "}");
  check_linear(agent::parse_notify_message, {"", "STATUS=#\n", ""});
  check_linear(agent::parse_notify_message, {"STATUS=", "\x1b", ""});
}

TEST_CASE("requests of PMI-1, and what nodes exchange for it, are read in linear time") {
  rendezvous::Layout layout;
  const auto with_server = [layout](const std::function<void(agent::Pmi1Server&)>& use) {
    agent::Pmi1Server server(layout, {"name", {1}, {}});
    use(server);
  };
  const Parse requests = [&](std::string_view text) {
    with_server([&](agent::Pmi1Server& server) {
      server.receive(0, text);
      server.take_replies();
      server.take_barrier();
    });
  };
  for (const char* line :
       {"cmd=put kvsname=n key=k# value=v\n", "cmd=get kvsname=n key=k#\n", "cmd=barrier_in\n",
        "mcmd=spawn\nendcmd\n", "cmd=init pmi_version=1\n"}) {
    check_linear(requests, {"", line, ""});
  }
  check_linear(
      [&](std::string_view text) {
        with_server([&](agent::Pmi1Server& server) { server.end_barrier(text); });
      },
      {"", "k# v\n", ""});
}

TEST_CASE("messages of other nodes' doctors are read in linear time") {
  check_json(doctor::decode_facts, "", "");
  check_json(doctor::decode_facts, R"({"gpus":)", "}");
  check_json(doctor::decode_order, R"({"folders":)", "}");
  const Parse links = [](std::string_view text) { doctor::decode_links(text, 0, 2); };
  check_json(links, "", "");
  check_linear(links, {"[", R"({"from":0,"to":#},)", R"({"from":0,"to":1}]})"});
}

TEST_CASE("orders and marked lines are read in linear time") {
  check_linear(remote::decode_body, {std::string("/\0000\0", 4), std::string("a#\0", 3), ""});
  const Parse take = [](std::string_view bytes) {
    launcher::MarkedLines().take(bytes, [](std::string_view /*line*/) {});
  };
  for (const char* piece : {"\x1e#\n", "\x1e", "\x10", "\x10^"})
    check_linear(take, {"", piece, "a"});
}

TEST_CASE("files of hosts and the headers of checkpoints are read in linear time") {
  check_linear(remote::parse_host_file, {"", "a# slots=2\n", ""});
  check_linear(remote::parse_host_file, {"", "a slots=2\n", ""});
  check_linear(remote::parse_host_list, {"", "a#:2,", "b"});
  const Parse header = [](std::string_view text) {
    ddp::internal::CheckpointHeader read;
    ddp::internal::decode_safetensors(safetensors(text), read);
  };
  check_json(header, "", "");
  check_json(header, R"({"part_0":{"dtype":"F32","data_offsets":[0,4],"shape":)", "}}");
  check_linear(header, {"{", R"("part_#":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)",
                        R"("part_0":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"});
}
