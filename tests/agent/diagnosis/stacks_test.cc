// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/stacks.h"

#include <algorithm>

#include "agent/diagnosis/process_stack.h"
#include "tests/catch.h"

namespace ddprun::agent {
namespace {

using Frames = std::vector<std::string>;

const Frames kReduce = {"<module> (train.py:120)", "main (train.py:101)",
                        "all_reduce (c10d.py:41)"};
const Frames kLoad = {"<module> (train.py:120)", "main (train.py:99)", "load_batch (data.py:41)"};

std::vector<RankStack> waiting(int first, int last) {
  std::vector<RankStack> ranks;
  for (int rank = first; rank <= last; ++rank) {
    ranks.push_back({rank, kReduce, "waiting (futex)", 612.0 + rank});
  }
  return ranks;
}

Stacks node(const std::string& host, const std::vector<RankStack>& ranks) {
  return stacks_of_node(host, ranks, {});
}

size_t lines_of(const std::string& text) {
  return 1 + static_cast<size_t>(std::ranges::count(text, '\n'));
}

TEST_CASE("ranks at the same place are shown as one") {
  CHECK(stacks_text(node("gpu-01", waiting(0, 7))) ==
        "where ranks 0-7 are, the innermost call last:\n"
        "<module> (train.py:120)\n"
        "main (train.py:101)\n"
        "all_reduce (c10d.py:41)\n"
        "[waiting (futex) for 10 min]");
}

TEST_CASE("ranks part where their stacks part, and groups have their hosts if there are several") {
  Stacks all = node("gpu-01", waiting(0, 6));
  merge_stacks(all, node("gpu-02", {{7, kLoad, "waiting (recv)", 700}, waiting(8, 8).front()}));
  CHECK(stacks_text(all) ==
        "where ranks 0-8 are, the innermost call last:\n"
        "<module> (train.py:120)\n"
        "ranks 0-6, 8 (gpu-01, gpu-02):\n"
        "  main (train.py:101)\n"
        "  all_reduce (c10d.py:41)\n"
        "  [waiting (futex) for 10 min]\n"
        "rank 7 (gpu-02):\n"
        "  main (train.py:99)\n"
        "  load_batch (data.py:41)\n"
        "  [waiting (recv) for 11 min]");
}

TEST_CASE("each note about stacks that could not be read is shown once") {
  CHECK(stacks_text({}) == "no worker runs");
  Stacks all = stacks_of_node("a", waiting(0, 0), {"no py-spy", "no py-spy"});
  merge_stacks(all, stacks_of_node("b", waiting(1, 1), {"no py-spy"}));
  CHECK(all.notes == Frames{"no py-spy"});
  CHECK(stacks_text(all).ends_with("\nnote: no py-spy"));
}

TEST_CASE("any number of stacks fits a screen, with the large groups and the smallest") {
  Stacks all;
  for (int host = 0; host < 100; ++host) {
    std::vector<RankStack> ranks = waiting(host * 10, host * 10 + 8);
    Frames deep = kLoad;
    for (int i = 0; i < 200; ++i) deep.push_back("f" + std::to_string(host * i) + " (x.cc:1)");
    ranks.push_back({host * 10 + 9, deep, "running", 0});
    merge_stacks(all, node("gpu-" + std::to_string(host), ranks));
  }
  const std::string text = stacks_text(all);
  CHECK(lines_of(text) <= 42);
  CHECK(text.find("all_reduce (c10d.py:41)") != text.npos);
  CHECK(text.find(" more calls ...") != text.npos);
  CHECK(text.find("more groups of ranks ...") != text.npos);
  CHECK(text.find("\n  rank 999 (gpu-99):\n") != text.npos);
}

TEST_CASE("a tree whose groups part many times is cut") {
  std::vector<RankStack> ranks;
  for (int rank = 0; rank < 1'024; ++rank) {
    Frames frames;
    for (int bit = 0; bit < 10; ++bit) frames.push_back(std::to_string(rank >> bit & 1));
    ranks.push_back({rank, frames, "running", 0});
  }
  const std::string text = stacks_text(node("a", ranks), 40);
  CHECK(lines_of(text) == 42);
  CHECK(text.ends_with("\n... and more than fits here"));
}

TEST_CASE("a node's stacks are JSON of a bounded size, and reading it keeps them") {
  std::vector<RankStack> ranks;
  for (int rank = 0; rank < 1'000; ++rank) {
    Frames frames;
    for (int depth = 0; depth < 200; ++depth) {
      frames.push_back("f" + std::to_string(rank * depth) + std::string(150, 'x'));
    }
    ranks.push_back({rank, frames, "waiting (futex)", 9});
  }
  const Stacks all = node("gpu-01", ranks);
  const std::string json = stacks_json(all);
  CHECK(json.size() <= kMostStacksJson);
  CHECK(all.tree.root().ranks.size() == 1'000);
  const auto read = parse_stacks(json, 0, 1'000);
  REQUIRE(read.has_value());
  CHECK(stacks_json(*read) == json);
  CHECK(stacks_text(*read) == stacks_text(all));
}

TEST_CASE("the JSON of two nodes has hosts, notes and one tree") {
  Stacks all = node("gpu-01", waiting(0, 1));
  merge_stacks(all, stacks_of_node("gpu-02", {{2, {"f (a.py:1)"}, "running", 0}}, {"a note"}));
  CHECK(stacks_json(all) ==
        R"x({"hosts":[{"host":"gpu-01","ranks":"0-1"},{"host":"gpu-02","ranks":"2"}],)x"
        R"x("notes":["a note"],"stacks":[{"at":"<module> (train.py:120)","in":[)x"
        R"x({"at":"main (train.py:101)","in":[{"at":"all_reduce (c10d.py:41)","in":[)x"
        R"x({"at":"[waiting (futex)]","ranks":"0-1","seconds":612.0}],"ranks":"0-1"}],)x"
        R"x("ranks":"0-1"}],"ranks":"0-1"},)x"
        R"x({"at":"f (a.py:1)","in":[{"at":"[running]","ranks":"2"}],"ranks":"2"}]})x");
}

TEST_CASE("notes without room are counted, even those of other nodes") {
  const auto notes = [](const std::string& host, int count) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) all.push_back(host + " " + std::to_string(i));
    return stacks_of_node(host, {}, all);
  };
  CHECK(stacks_json(notes("a", 16)).find("more") == std::string::npos);
  const auto read = parse_stacks(stacks_json(notes("a", 18)), 0, 1);
  REQUIRE(read.has_value());
  CHECK(read->more_notes == 2);
  Stacks all = *read;
  merge_stacks(all, notes("b", 20));
  CHECK(all.notes.size() == 16);
  CHECK(all.more_notes == 2 + 20);
  CHECK(stacks_text(all).ends_with("note: a 15\nnote: 22 more"));
  const auto wrong = parse_stacks(R"({"notes":[],"more_notes":-7,"stacks":[]})", 0, 1);
  REQUIRE(wrong.has_value());
  CHECK(wrong->more_notes == 0);
}

TEST_CASE("a node reports only its own ranks, in lines that control no terminal") {
  const auto read = parse_stacks(
      R"({"hosts":[{"host":"a\nb\u001b[2J","ranks":"0-9"}],"notes":["x\u001b[2J\ny",7],)"
      R"("stacks":[{"at":"f\n\u001b[2J","ranks":"3-5,9","seconds":-3,"in":[7,)"
      R"({"at":"g","ranks":"9"},{"at":"h","ranks":"4","seconds":1e300}]},{"at":"i","ranks":"8"}]})",
      4, 2);
  REQUIRE(read.has_value());
  CHECK(read->hosts[0].ranks == std::vector{4, 5});
  CHECK(read->tree.root().ranks == std::vector{4, 5});
  REQUIRE(read->tree.root().in.size() == 1);
  CHECK(read->tree.root().in[0].in.size() == 1);
  const std::string text = stacks_text(*read);
  CHECK(text.find('\x1b') == text.npos);
  CHECK(text.find("note: x\\x1b[2J y") != text.npos);
  CHECK(lines_of(text) == 4);
}

TEST_CASE("other JSON than that of stacks is refused or has no stacks") {
  for (const char* text : {"", "[", "[]", "7", "null", "{\"hosts\":"}) {
    CAPTURE(text);
    CHECK(parse_stacks(text).has_error());
  }
  for (const char* text : {"{}", R"({"hosts":7,"notes":{},"stacks":"x"})",
                           R"({"stacks":[[],7,{"at":3,"ranks":["0"]}]})",
                           R"({"stacks":[{"at":"f","ranks":"-1"},{"at":"f","ranks":"x"}]})",
                           R"({"stacks":[{"at":"f","ranks":"5-3"},{"at":"f","ranks":""}]})"}) {
    CAPTURE(text);
    const auto read = parse_stacks(text);
    REQUIRE(read.has_value());
    CHECK(read->tree.root().in.empty());
  }
  std::string deep;
  for (int i = 0; i < 5'000; ++i) deep += R"({"at":"f","ranks":"0","in":[)";
  CHECK(parse_stacks("{\"stacks\":[" + deep).has_error());
  for (int i = 0; i < 5'000; ++i) deep += "]}";
  CHECK(parse_stacks("{\"stacks\":[" + deep + "]}").has_error());
}

TEST_CASE("a list of ranks ends where it repeats itself") {
  std::string ranks;
  for (int i = 0; i < 5'000; ++i) ranks += "0-16777214,";
  const auto read = parse_stacks(R"({"stacks":[{"at":"f","ranks":")" + ranks + "\"}]}", 0, 8);
  REQUIRE(read.has_value());
  CHECK(read->tree.root().ranks.size() == 8);
}

TEST_CASE("a tree has a bounded number of calls, and keeps all ranks") {
  StackTree tree;
  const int many = static_cast<int>(StackTree::kMostNodes);
  const auto way = [](int rank) {
    return Frames{"f" + std::to_string(rank / 200), "g" + std::to_string(rank)};
  };
  for (int rank = 0; rank < many; ++rank) {
    tree.add({rank, way(rank), "running", 0});
    if (rank % 1'000 != 0) continue;
    StackTree other;
    other.add({rank, {"g", "h" + std::to_string(rank)}, "running", 0});
    tree.merge(other.root());
  }
  const std::vector<StackNode>& outermost = tree.root().in;
  size_t nodes = 0;
  size_t ranks = 0;
  for (const StackNode& node : outermost) {
    nodes += 1 + node.in.size();
    for (const StackNode& inner : node.in) nodes += inner.in.size();
    ranks += node.ranks.size();
  }
  CHECK(nodes <= StackTree::kMostNodes + outermost.size() + 1);  // "..." in each
  CHECK(ranks == tree.root().ranks.size());
}

TEST_CASE("a deep stack loses its middle") {
  StackTree tree;
  Frames frames;
  for (int i = 0; i < 9; ++i) frames.push_back(std::to_string(i));
  tree.add({0, frames, "running", 0}, 3);
  Frames way;
  for (const StackNode* node = &tree.root(); !node->in.empty(); way.push_back(node->at)) {
    node = &node->in.front();
  }
  CHECK(way == Frames{"0", "(6 calls left out)", "7", "8", "[running]"});
}

TEST_CASE("the helper's last whole line about a process counts") {
  ProcessStack stack;
  stack.sample = {'S', false, "futex", 0.5, std::chrono::milliseconds(9'500)};
  stack.wait_channel = "futex_do_wait";
  stack.python = {{"load_batch", "/home/me/data.py", 41}, {"<module>", "/home/me/train.py", 9}};
  stack.native = {{"read", "read.c:26"}, {"", "libfoo.so"}};
  stack.waits = {{9, true, 1.5, 2.5, 3, 4, 0x7ffc'0000'8100, 0x7ffc'0000'0200, "0123abcd"}};
  stack.in_driver = true;
  const std::string lines = line_of(7, {}) + line_of_note("no py-spy") + "garbage\n[]\n" +
                            line_of(7, stack) + line_of(8, {}) + "{\"pid\":9}";
  const ProcessStacks read = read_stack_lines(lines);
  CHECK(read.notes == Frames{"no py-spy"});
  REQUIRE(read.of.size() == 2);  // without the line that was cut off
  CHECK(line_of(7, read.of.at(7)) == line_of(7, stack));
  CHECK(read.of.at(8).sample.state == '?');
  CHECK_FALSE(read.of.at(8).sample.still.has_value());
}

TEST_CASE("a rank's stack has Python's calls, then the native ones, then the kernel's state") {
  ProcessStack stack;
  stack.sample = {'S', false, "futex", 0, std::chrono::milliseconds(9'500)};
  stack.python = {{"load_batch", "/home/me/data.py", 41}, {"<module>", "/home/me/train.py", 9}};
  stack.native = {{"read", "libc.so.6"},
                  {"", "libfoo.so"},
                  {"_PyEval_EvalFrameDefault", "ceval.c:5"},
                  {"main", "python3.11"}};
  RankStack rank = rank_stack(3, stack);
  CHECK(rank.frames == Frames{"<module> (train.py:9)", "load_batch (data.py:41)", "?? (libfoo.so)",
                              "read (libc.so.6)"});
  CHECK(rank.state == "waiting (futex)");
  CHECK(rank.seconds == 9.5);
  stack.python.clear();
  CHECK(rank_stack(3, stack).frames == Frames{"?? (libfoo.so)", "read (libc.so.6)"});
  stack.native = {{"read", "libc.so.6"}, {"main", "train.cc:9"}};
  CHECK(rank_stack(3, stack).frames == Frames{"main (train.cc:9)", "read (libc.so.6)"});
}

TEST_CASE("the state says what the kernel does for a rank") {
  const auto state = [](char letter, const std::string& call, const std::string& channel,
                        bool traced = false) {
    ProcessStack stack;
    stack.sample.state = letter;
    stack.sample.call = call;
    stack.sample.traced = traced;
    stack.wait_channel = channel;
    return rank_stack(0, stack).state;
  };
  CHECK(state('R', "", "") == "running");
  CHECK(state('S', "poll", "poll_schedule_timeout") == "waiting (poll)");
  CHECK(state('S', "", "do_poll") == "waiting, do_poll");
  CHECK(state('D', "read", "nfs_wait") == "in uninterruptible sleep (state D) (read), nfs_wait");
  CHECK(state('T', "", "") == "stopped by a signal (state T)");
  CHECK(state('t', "", "", true) == "held by a debugger or profiler");
  CHECK(state('Z', "", "") == "its main thread has ended");
  CHECK(state('I', "", "") == "in state I");
}

}  // namespace
}  // namespace ddprun::agent
