// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/python_stack.h"

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

using StackKind = StackPlace::Kind;

/// A dump of py-spy 0.4.3, shortened: PyTorch 2.15 in Gloo's all_reduce, with another thread.
const std::string kAllReduce = R"([
  {"pid": 32470, "thread_id": 139790347600000, "thread_name": "Thread-1", "os_thread_id": 32475,
   "active": false, "owns_gil": false, "frames": [
     {"name": "run", "filename": "/usr/lib/python3.11/threading.py", "line": 982, "locals": null}]},
  {"pid": 32470, "thread_id": 139790347604672, "thread_name": "MainThread", "os_thread_id": 32470,
   "active": false, "owns_gil": false, "frames": [
     {"name": "all_reduce", "module": null, "line": 4181, "locals": null, "is_entry": true,
      "filename": "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"},
     {"name": "_exception_logger.<locals>.wrapper", "line": 83,
      "filename": "/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"},
     {"name": "<module>", "filename": "/home/me/train.py", "short_filename": "train.py",
      "line": 31}],
   "process_info": null}])";

constexpr const char* kTorch = "/v/lib/python3.11/site-packages/torch/";

TEST_CASE("the main thread's stack is read from py-spy's dump") {
  const PythonStack stack = parse_py_spy(kAllReduce, 32470);
  REQUIRE(stack.size() == 3);
  CHECK(stack[0].function == "all_reduce");
  CHECK(stack[0].line == 4181);
  CHECK(stack[2].file == "/home/me/train.py");
}

TEST_CASE("text that is no dump of py-spy has no stack") {
  for (const char* text :
       {"", "[", "{}", "[]", "[1, null, []]", "[{\"os_thread_id\": 7}]", "7",
        "[{\"os_thread_id\": 7, \"frames\": 3}]", "Error: not a python process"}) {
    CAPTURE(text);
    CHECK(parse_py_spy(text, 7).empty());
  }
  CHECK(parse_py_spy(kAllReduce, 1).empty());
  const PythonStack odd = parse_py_spy(R"([{"os_thread_id": 7, "frames": [3, {"line": "x"}]}])", 7);
  REQUIRE(odd.size() == 2);
  CHECK(odd[1].line == 0);
  std::string deep = "[{\"os_thread_id\": 7, \"frames\": [";
  for (int i = 0; i < 300; ++i) deep += "{\"name\": \"f\"},";
  deep.back() = ']';
  CHECK(parse_py_spy(deep + "}]", 7).size() == 200);
}

TEST_CASE("a stack in a collective is described by the collective and the program's line") {
  const StackPlace place = stack_place(parse_py_spy(kAllReduce, 32470));
  CHECK(place.kind == StackKind::collective);
  CHECK(place.text == "in all_reduce (train.py:31)");
  const std::string torch = kTorch;
  const StackPlace init =
      stack_place({{"_create_c10d_store", torch + "distributed/rendezvous.py", 1},
                   {"_env_rendezvous_handler", torch + "distributed/rendezvous.py", 2},
                   {"init_process_group", torch + "distributed/distributed_c10d.py", 3},
                   {"main", "train.py", 12}});
  CHECK(init.kind == StackKind::collective);
  CHECK(init.text == "in init_process_group (train.py:12)");
}

TEST_CASE("a traceback is read as a stack, whatever is before and after it") {
  const std::string barrier =
      "[rank3]: Traceback (most recent call last):\n"
      "[rank3]:   File \"/home/me/train.py\", line 32, in <module>\n"
      "[rank3]:     dist.barrier()\n"
      "[rank3]:   File \"/v/site-packages/torch/distributed/c10d_logger.py\", line 83, in wrapper\n"
      "[rank3]:     return func(*args, **kwargs)\n"
      "[rank3]:            ^^^^^^^^^^^^^^^^^^^^^\n"
      "[rank3]:   File \"/v/site-packages/torch/distributed/distributed_c10d.py\", line 6614, in "
      "barrier\n"
      "[rank3]:     work.wait()\n"
      "[rank3]: RuntimeError: Timed out waiting 20000ms for recv operation to complete\n";
  const PythonStack stack = parse_traceback(barrier);
  REQUIRE(stack.size() == 3);
  CHECK(stack[0].function == "barrier");
  CHECK(stack[0].file == "/v/site-packages/torch/distributed/distributed_c10d.py");
  CHECK(stack[0].line == 6614);
  CHECK(stack_place(stack).kind == StackKind::collective);
  CHECK(stack_place(stack).text == "in barrier (train.py:32)");
  const std::string other =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in main\nValueError: no\n";
  CHECK(parse_traceback(other + "\nDuring handling of that:\n\n" + barrier).size() == 3);
  CHECK(parse_traceback(barrier + other).size() == 1);
  CHECK(parse_traceback(barrier.substr(barrier.find("[rank3]:     dist"))).size() == 2);
}

TEST_CASE("text without a traceback has no stack") {
  for (const char* text :
       {"", "\n", "  File \"", "  File \"a.py\"", "  File \"a.py\", line ",
        "  File \"a.py\", line 7", ", in f", "\", line 7, in f", "File \"a.py\", line 7, in f"}) {
    CAPTURE(text);
    CHECK(parse_traceback(text).empty());
  }
  const PythonStack odd = parse_traceback("  File \"a.py\", line x, in ");
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].line == 0);
  CHECK(odd[0].function.empty());
}

TEST_CASE("a stack outside collectives is described by the innermost line of the program") {
  const StackPlace plain = stack_place({{"load_batch", "/home/me/data.py", 41}});
  CHECK(plain.kind == StackKind::outside);
  CHECK(plain.text == "in load_batch (data.py:41)");
  const StackPlace library = stack_place({{"wait", "/usr/lib/python3.11/threading.py", 327},
                                          {"get", "/usr/lib/python3.11/queue.py", 171},
                                          {"next_batch", "/home/me/data.py", 50},
                                          {"<module>", "/home/me/train.py", 31}});
  CHECK(library.kind == StackKind::outside);
  CHECK(library.text == "in next_batch (data.py:50)");
  const StackPlace frozen = stack_place({{"_find", "<frozen importlib._bootstrap>", 7}});
  CHECK(frozen.text == "in _find (<frozen importlib._bootstrap>:7)");
}

TEST_CASE("backward() may wait in a collective, and a checkpoint may not") {
  const std::string torch = kTorch;
  const StackPlace backward =
      stack_place({{"backward", torch + "autograd/__init__.py", 7}, {"step", "t.py", 9}});
  CHECK(backward.kind == StackKind::backward);
  CHECK(backward.text == "in backward (t.py:9)");
  const StackPlace hook = stack_place(
      {{"hook", "t.py", 3}, {"backward", torch + "autograd/__init__.py", 7}, {"step", "t.py", 9}});
  CHECK(hook.kind == StackKind::outside);
  CHECK(hook.text == "in hook (t.py:3)");
  CHECK(stack_place({{"save", torch + "distributed/checkpoint/state_dict_saver.py", 7},
                     {"step", "t.py", 9}})
            .kind == StackKind::unclear);
  CHECK(stack_place({{"gather_object", torch + "distributed/distributed_c10d.py", 3},
                     {"save", torch + "distributed/checkpoint/state_dict_saver.py", 7},
                     {"step", "t.py", 9}})
            .kind == StackKind::collective);
}

}  // namespace
}  // namespace ddprun::agent
