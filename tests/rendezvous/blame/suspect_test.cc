// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/suspect.h"

#include <numeric>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::rendezvous {
namespace {

using Kind = WorkerPlace::Kind;

/// Ranks 0 to `ranks` - 1, equally many on one node of each of these hosts.
class Job {
 public:
  explicit Job(int ranks, std::vector<std::string> hosts = {"gpu-01"})
      : hosts_(std::move(hosts)), size_(ranks / static_cast<int>(hosts_.size())) {
    nodes_.resize(hosts_.size());
  }

  Job& failed(int rank, bool consequence) {
    node_of(rank).failed.push_back({rank, "exit 1", consequence});
    return *this;
  }

  Job& timed_out(int rank) { return failed(rank, true); }

  Job& lost_peer(int rank) {
    node_of(rank).failed.push_back({rank, "exit 1", true, true});
    return *this;
  }

  Job& at(const std::vector<int>& ranks, Kind kind, const std::string& what, double still = 0) {
    for (const int rank : ranks) node_of(rank).places.push_back({{rank}, kind, what, still});
    return *this;
  }

  Job& waiting(const std::vector<int>& ranks) {
    return at(ranks, Kind::waiting, "waiting (futex)", 1800);
  }

  Job& asleep(const std::vector<int>& ranks, double still = 612) {
    return at(ranks, Kind::elsewhere, "asleep (clock_nanosleep)", still);
  }

  /// Puts ranks into a call of the group, or after it if `open` is 0.
  Job& calls(const std::vector<int>& ranks, std::uint64_t begun, std::uint64_t open,
             const std::string& shown, std::uint64_t group = 1) {
    for (const int rank : ranks) node_of(rank).calls.push_back({group, begun, open, shown, {rank}});
    return *this;
  }

  /// The same of ranks that have failed since, or have begun these calls last.
  Job& records(const std::vector<int>& ranks, std::uint64_t begun, std::uint64_t open,
               const std::vector<std::string>& recent) {
    const bool failed = open == begun;
    for (const int rank : ranks)
      node_of(rank).calls.push_back({1, begun, open, recent.back(), {rank}, recent, failed});
    return *this;
  }

  Job& has_release(const std::vector<int>& ranks, const std::string& release) {
    for (const int rank : ranks)
      node_of(rank).calls.push_back({.group = 2, .shown = "", .ranks = {rank}, .release = release});
    return *this;
  }

  std::string suspect() const { return seen().text(); }

  Suspect seen() const {
    Suspect suspect;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      suspect.add(nodes_[i], hosts_[i], static_cast<int>(i) * size_, size_);
    }
    return suspect;
  }

 private:
  WorkerExits& node_of(int rank) { return nodes_[static_cast<size_t>(rank / size_)]; }

  std::vector<std::string> hosts_;
  std::vector<WorkerExits> nodes_;
  int size_;
};

std::vector<int> from_to(int first, int last) {
  std::vector<int> ranks(static_cast<size_t>(last - first + 1));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

TEST_CASE("the rank that is in no collective while the others wait is the suspect") {
  CHECK(Job(3).timed_out(0).asleep({1}).waiting({2}).suspect() ==
        "rank 1 (gpu-01) is the likely cause: asleep (clock_nanosleep) for 10 min, while ranks 0, "
        "2 waited");
  CHECK(Job(2).timed_out(0).asleep({1}, 11.5).suspect() ==
        "rank 1 (gpu-01) is the likely cause: asleep (clock_nanosleep) for 11.5 s, while rank 0 "
        "waited");
}

TEST_CASE("a suspect is found and named on another node") {
  Job job(8, {"gpu-01", "gpu-02"});
  job.timed_out(0).waiting(from_to(1, 6));
  job.at({7}, Kind::elsewhere, "in uninterruptible sleep (state D, a disk or device)", 33);
  CHECK(job.suspect() ==
        "rank 7 (gpu-02) is the likely cause: in uninterruptible sleep (state D, a disk or device) "
        "for 33 s, while ranks 0-6 waited");
}

TEST_CASE("all ranks of a node can be the suspects") {
  Job job(12, {"gpu-01", "gpu-02", "gpu-03"});
  job.timed_out(0).waiting(from_to(1, 7)).asleep({8, 9}, 40).asleep({10, 11}, 30);
  CHECK(job.suspect() ==
        "ranks 8-11 (gpu-03) are the likely cause: asleep (clock_nanosleep) for 30 s, while ranks "
        "0-7 waited");
}

TEST_CASE("a rank that a signal has stopped is the suspect, whatever the others do") {
  Job job(4, {"gpu-01", "gpu-02"});
  job.timed_out(3).asleep({0}).at({1}, Kind::busy, "busy on a CPU");
  job.at({2}, Kind::stopped, "stopped by a signal (state T)", 70);
  CHECK(job.suspect() ==
        "rank 2 (gpu-02) is the likely cause: stopped by a signal (state T) for 70 s, while rank 3 "
        "waited");
}

TEST_CASE("a small group in no collective is named before a larger one") {
  Job job(8);
  job.timed_out(0).waiting({1, 2, 3, 4}).at({5, 6}, Kind::elsewhere, "waiting for a child", 20);
  CHECK(job.asleep({7}).suspect().starts_with("rank 7 "));
}

TEST_CASE("if stacks are known, the rank whose stack shows no collective is the suspect") {
  Job job(8, {"gpu-01", "gpu-02"});
  job.timed_out(0).at(from_to(1, 6), Kind::collective, "in all_reduce (train.py:88)", 700);
  job.at({7}, Kind::outside, "in load_batch (data.py:41)", 712);
  CHECK(job.suspect() ==
        "rank 7 (gpu-02) is the likely cause: in load_batch (data.py:41) for 11 min, while ranks "
        "0-6 waited in all_reduce (train.py:88)");
  // A rank in another collective waits for the suspect, too.
  job.at({6}, Kind::collective, "in barrier (train.py:90)", 700);
  CHECK(job.suspect().ends_with("while ranks 0-6 waited"));
}

TEST_CASE("the rank that waits in another collective than all others is the suspect") {
  const auto told = [](Job job, const std::vector<int>& ranks, const std::string& what) {
    for (const int rank : ranks) job.timed_out(rank);
    return job.at(ranks, Kind::collective, what);
  };
  const Job reduce = told(Job(4, {"gpu-01", "gpu-02"}), {0, 1, 2}, "in all_reduce (train.py:88)");
  CHECK(told(reduce, {3}, "in barrier (train.py:90)").suspect() ==
        "rank 3 (gpu-02) is the likely cause: in barrier (train.py:90), while ranks 0-2 waited in "
        "all_reduce (train.py:88)");
  const Job lines =
      told(told(Job(4), {0}, "in all_reduce (a.py:7)"), {1, 2}, "in all_reduce (a.py:9)");
  CHECK(told(lines, {3}, "in barrier (a.py:5)").suspect() ==
        "rank 3 (gpu-01) is the likely cause: in barrier (a.py:5), while ranks 0-2 waited");
  const std::string nobody;
  // One collective may be on two lines; a message may be for a rank of another group.
  CHECK(told(reduce, {3}, "in all_reduce (train.py:90)").suspect() == nobody);
  CHECK(told(reduce, {3}, "in recv (train.py:90)").suspect() == nobody);
  CHECK(told(reduce, {3}, "in batch_isend_irecv (train.py:90)").suspect() == nobody);
  // Two against two, one against one, three collectives, and a rank that shows none.
  const Job half = told(Job(4), {0, 1}, "in all_reduce (train.py:88)");
  CHECK(told(half, {2, 3}, "in barrier (train.py:90)").suspect() == nobody);
  CHECK(told(told(Job(2), {0}, "in all_reduce (a.py:1)"), {1}, "in barrier (a.py:2)").suspect() ==
        nobody);
  CHECK(told(told(half, {2}, "in barrier (a.py:1)"), {3}, "in gather (a.py:2)").suspect() ==
        nobody);
  CHECK(told(half, {2}, "in barrier (a.py:1)").timed_out(3).suspect() == nobody);
  CHECK(told(half, {2}, "in barrier (a.py:1)").suspect() == nobody);
}

TEST_CASE(
    "a rank that ended with 0 while the others lost it, or wait in a collective, is the suspect") {
  const auto ended = [](Job job, const std::vector<int>& ranks) {
    return job.at(ranks, Kind::ended, "ended with exit code 0", 2.5);
  };
  const std::string nobody;
  Job lost(4, {"gpu-01", "gpu-02"});
  lost.lost_peer(0).timed_out(1).timed_out(2);
  CHECK(
      ended(lost, {3}).suspect() ==
      "rank 3 (gpu-02) is the likely cause: ended with exit code 0 2.5 s earlier, while ranks 0-2 "
      "waited");
  CHECK(ended(Job(2).timed_out(0), {1}).suspect() == nobody);  // its own request may have timed out
  CHECK(
      ended(Job(2).timed_out(0).at({0}, Kind::collective, "in backward (a.py:8)"), {1}).suspect() ==
      "rank 1 (gpu-01) is the likely cause: ended with exit code 0 2.5 s earlier, while rank 0 "
      "waited in backward (a.py:8)");
  // If most ranks have ended, the others have made one call too many.
  const Job many = ended(Job(4).lost_peer(3), {0, 1, 2});
  CHECK(many.suspect() == nobody);
  CHECK(Job(many).at({3}, Kind::collective, "in barrier (a.py:8)").suspect() ==
        "rank 3 (gpu-01) is the likely cause: in barrier (a.py:8), while ranks 0-2 had ended with "
        "exit code 0");
  CHECK(ended(Job(4).lost_peer(0).failed(2, false), {3}).suspect() == nobody);
  const Job hang = ended(Job(3).waiting({0, 1}), {2});
  CHECK(hang.seen().named() == 2);
  CHECK(tests::contains(hang.seen().stall_text(),
                        "\nrank 2 (gpu-01): ended with exit code 0 2.5 s earlier"));
}

TEST_CASE("a rank that computes elsewhere is named if the others show that they wait for it") {
  const auto computes = [](Job job, const std::vector<int>& ranks) {
    return job.at(ranks, Kind::computing, "in search (a.py:3), busy on a CPU");
  };
  const Job backward = Job(4).timed_out(0).at({1, 2}, Kind::collective, "in backward (a.py:8)");
  CHECK(computes(backward, {3}).suspect() ==
        "rank 3 (gpu-01) is the likely cause: in search (a.py:3), busy on a CPU, while ranks 0-2 "
        "waited in backward (a.py:8)");
  CHECK(computes(Job(4).timed_out(0).waiting({1, 2}), {3}).suspect().empty());
  CHECK(computes(Job(4).timed_out(0).waiting({1}).asleep({2}), {3}).suspect().empty());
  // A rank that stands still does not come at all.
  const Job both =
      Job(4).timed_out(0).asleep({2}).at({1}, Kind::collective, "in backward (a.py:8)");
  CHECK(computes(both, {3}).seen().named() == 2);
  CHECK(Job(both).at({3}, Kind::busy, "busy on a CPU").suspect().empty());
}

TEST_CASE("backward is no collective that differs from the others'") {
  Job job = Job(3).timed_out(0).at({0, 1}, Kind::collective, "in all_reduce (a.py:8)");
  CHECK(job.at({2}, Kind::collective, "in backward (a.py:9)").suspect().empty());
}

TEST_CASE("a stack without a known collective alone names no suspect") {
  const auto outside = [](Job job, const std::vector<int>& ranks, const std::string& what) {
    return job.at(ranks, Kind::outside, what, 900);
  };
  CHECK(outside(Job(2).timed_out(0), {1}, "in train (train.py:88)").suspect().empty());
  CHECK(outside(Job(8).timed_out(0), from_to(1, 7), "in train (train.py:88)").suspect().empty());
  Job job = outside(Job(8).timed_out(0), from_to(1, 6), "in train (train.py:88)");
  CHECK(outside(job, {7}, "in load_batch (data.py:41)").suspect().empty());
}

TEST_CASE("no rank is named without a suspect") {
  const std::string nobody;
  CHECK(Job(4).suspect() == nobody);
  CHECK(Job(1).timed_out(0).suspect() == nobody);
  // A rank failed for its own reason: first, or soon after a rank that waited for it.
  CHECK(Job(3).failed(0, false).asleep({1}).waiting({2}).suspect() == nobody);
  CHECK(Job(4).timed_out(0).failed(3, false).asleep({1}).waiting({2}).suspect() == nobody);
  Job on_other_node(4, {"gpu-01", "gpu-02"});
  CHECK(on_other_node.timed_out(0).asleep({1}).failed(3, false).suspect() == nobody);
  // All ranks do the same: wait, sleep, spin, or fail.
  CHECK(Job(8).timed_out(0).waiting(from_to(1, 7)).suspect() == nobody);
  CHECK(Job(8).timed_out(0).asleep(from_to(1, 7)).suspect() == nobody);
  CHECK(Job(8).timed_out(0).at(from_to(1, 7), Kind::busy, "busy on a CPU").suspect() == nobody);
  CHECK(Job(3).timed_out(0).timed_out(1).timed_out(2).suspect() == nobody);
  CHECK(Job(8).timed_out(0).at(from_to(1, 7), Kind::unknown, "unknown").suspect() == nobody);
  // All ranks but one wait, but that one may be in the collective, too.
  CHECK(Job(4).timed_out(0).waiting({1, 2}).at({3}, Kind::waiting, "waiting (poll)", 9).suspect() ==
        nobody);
  CHECK(Job(4).timed_out(0).waiting({1, 2}).at({3}, Kind::busy, "busy on a CPU").suspect() ==
        nobody);
  CHECK(Job(4).timed_out(0).waiting({1, 2}).at({3}, Kind::unknown, "unknown").suspect() == nobody);
  // One rank sleeps, but may wait for the rank that computes.
  CHECK(Job(4).timed_out(0).asleep({1}).at({2}, Kind::busy, "busy on a CPU").suspect() == nobody);
  // More ranks are apart than wait.
  CHECK(Job(4).timed_out(0).asleep({1, 2}).waiting({}).suspect() == nobody);
  // Two groups of one size are apart.
  Job two(6);
  two.timed_out(0).waiting({1, 2, 3}).asleep({4});
  CHECK(two.at({5}, Kind::elsewhere, "waiting for a child process (wait4)", 9).suspect() == nobody);
}

TEST_CASE("a node accuses only its own ranks, in one bounded line") {
  WorkerExits exits;
  exits.failed = {{0, "exit 1", true}, {9, "exit 1", false}};  // 9 is not of this node
  exits.places = {{{1, 9}, Kind::elsewhere, "asleep\n" + std::string(5'000, 'x') + "\x1b[2J", 9}};
  Suspect suspect;
  suspect.add(exits, "gpu\n\x1b[2J" + std::string(5'000, 'y'), 0, 2);
  const std::string text = suspect.text();
  CHECK(text.starts_with("rank 1 ("));
  CHECK(text.size() < 1'000);
  CHECK(text.find('\n') == text.npos);
  CHECK(text.find('\x1b') == text.npos);
}

TEST_CASE("the places of a hostile node are bounded") {
  Suspect suspect;
  for (int i = 0; i < 1'000; ++i) {
    WorkerExits exits;
    exits.failed = {{0, "exit 1", true}};
    exits.places = {{{1}, Kind::elsewhere, "asleep " + std::to_string(i), 9}};
    suspect.add(exits, "gpu-" + std::to_string(i), 0, 2);
  }
  CHECK(suspect.text().empty());  // so many groups of one rank
}

TEST_CASE("a hang is reported with the places of all ranks") {
  const Job hang = Job(4).asleep({1}).waiting({0, 2, 3});
  CHECK(hang.suspect().empty());
  CHECK(hang.seen().named() == 1);
  CHECK(
      hang.seen().stall_text() ==
      "rank 1 (gpu-01) is the likely cause: asleep (clock_nanosleep) for 10 min, while ranks 0, 2, "
      "3 waited\n"
      "rank 1 (gpu-01): asleep (clock_nanosleep) for 10 min\n"
      "ranks 0, 2, 3 (gpu-01): waiting (futex) for 30 min");
  const Job alone = Job(1).asleep({0});
  CHECK_FALSE(alone.seen().named());
  CHECK(alone.seen().stall_text() ==
        "no rank differs from the others\n"
        "rank 0 (gpu-01): asleep (clock_nanosleep) for 10 min");
  const Job differ = Job(2).at({0}, Kind::waiting, "waiting (poll)").waiting({1});
  CHECK(differ.seen().stall_text().starts_with("it is unclear for which rank the others wait\n"));
  const Job stopped = Job(1).at({0}, Kind::stopped, "stopped by a signal (state T)");
  CHECK(stopped.seen().stall_text() ==
        "rank 0 (gpu-01) is the likely cause: stopped by a signal (state T)\n"
        "rank 0 (gpu-01): stopped by a signal (state T)");
}

TEST_CASE("the lines of a hang with many groups fit into a message") {
  Job job(64, {std::string(300, 'a'), std::string(300, 'b')});
  for (int rank = 0; rank < 64; ++rank) {
    job.at({rank}, Kind::waiting, std::to_string(rank) + std::string(300, 'x'), 1);
  }
  const std::string text = job.seen().stall_text();
  CHECK(text.size() < 4'000);
  CHECK(text.starts_with("it is unclear for which rank the others wait"));
  CHECK(text.ends_with("\nand other groups of ranks"));
}

TEST_CASE("the rank that has not begun a collective call is the one that the others wait for") {
  Job job(4, {"gpu-01", "gpu-02"});
  job.timed_out(0).waiting({1, 2}).at({3}, Kind::busy, "after #120 barrier, busy on a CPU");
  CHECK(job.suspect().empty());  // its place alone shows nothing
  job.calls({1, 2}, 121, 121, "#121 all_reduce[8]").calls({3}, 120, 0, "#120 barrier");
  CHECK(job.suspect() ==
        "rank 3 (gpu-02) is the likely cause: after #120 barrier, busy on a CPU, while ranks 1, 2 "
        "waited in #121 all_reduce[8]");
  CHECK(job.seen().named() == 3);
}

TEST_CASE("a rank that waits in a call of another group is not the one to blame") {
  // 0 waits for 1 in the group 1, 1 for 2 in the group 2, and 2 is in no call.
  Job job(3);
  job.timed_out(0).waiting({0, 1}).at({2}, Kind::busy, "busy on a CPU");
  job.calls({0}, 7, 7, "#7 barrier", 1).calls({1}, 6, 0, "#6 barrier", 1);
  job.calls({1}, 4, 4, "#4 barrier", 2).calls({2}, 3, 0, "#3 barrier", 2);
  CHECK(job.seen().named() == 2);
  Job circle(2);
  circle.timed_out(0).waiting({0, 1});
  circle.calls({0}, 7, 7, "#7 barrier", 1).calls({1}, 6, 0, "#6 barrier", 1);
  circle.calls({1}, 4, 4, "#4 barrier", 2).calls({0}, 3, 0, "#3 barrier", 2);
  CHECK(circle.suspect().empty());
}

TEST_CASE("ranks in another call of the same number are named if they are the fewer") {
  const auto job = [](const std::vector<int>& others, const std::vector<int>& guilty) {
    Job made(4);
    made.timed_out(0).waiting({0, 1, 2, 3});
    return made.calls(others, 9, 9, "#9 all_reduce[8]").calls(guilty, 9, 9, "#9 barrier").suspect();
  };
  CHECK(
      job({0, 1, 2}, {3}) ==
      "rank 3 (gpu-01) is the likely cause: at #9 barrier, waiting (futex) for 30 min, while ranks "
      "0-2 waited in #9 all_reduce[8]");
  CHECK(job({0, 1}, {2, 3}).empty());
  CHECK(job({0, 1, 2, 3}, {}).empty());
}

TEST_CASE("ranks that have made another call before are named with both calls") {
  const auto recorded = [](Job job, const std::vector<int>& ranks, std::uint64_t begun,
                           std::uint64_t open, const std::vector<std::string>& recent) {
    return job.records(ranks, begun, open, recent);
  };
  const std::vector<std::string> right = {"#8 barrier", "#9 all_reduce[8]", "#10 all_reduce[8]"};
  // All have failed since, and guess which call that was.
  Job failed = recorded(Job(4).timed_out(0).timed_out(1).timed_out(2), {0, 1, 2}, 10, 10, right);
  CHECK(recorded(failed, {3}, 9, 9, {"#8 barrier", "#9 barrier"}).suspect() ==
        "rank 3 (gpu-01) is the likely cause: at #9 barrier, while ranks 0-2 waited in "
        "#9 all_reduce[8]");
  CHECK(recorded(failed, {3}, 10, 10, right).suspect().empty());
  Job asleep =
      recorded(failed, {3}, 11, 0, {"#9 all_reduce[2]", "#10 all_reduce[8]", "#11 barrier"});
  asleep.asleep({3});
  CHECK(asleep.suspect() ==
        "rank 3 (gpu-01) is the likely cause: at #9 all_reduce[2], asleep (clock_nanosleep) for 10 "
        "min, while ranks 0-2 waited in #9 all_reduce[8]");
  // Two against two, and three calls.
  Job half = recorded(Job(4).timed_out(0), {0, 1}, 10, 10, right);
  CHECK(recorded(half, {2, 3}, 9, 9, {"#9 barrier"}).suspect().empty());
  CHECK(recorded(recorded(half, {2}, 9, 9, {"#9 gather"}), {3}, 9, 9, {"#9 barrier"})
            .suspect()
            .empty());
}

TEST_CASE("a guess of the call in which ranks failed says of no rank that it is still inside") {
  Job job(4);
  job.timed_out(0).timed_out(1).timed_out(2).timed_out(3);
  job.records({0, 1, 2}, 10, 10, {"#9 all_reduce[8]", "#10 all_reduce[8]"});
  CHECK(job.records({3}, 9, 9, {"#9 all_reduce[8]"}).suspect().empty());
}

TEST_CASE("a rank that waits for a message is behind only if all others wait for it") {
  const auto job = [](int ranks) {
    Job made(ranks);
    made.timed_out(0).at({3}, Kind::collective, "after #8 barrier, in recv (a.py:7)");
    made.calls({0, 1, 2}, 9, 9, "#9 barrier").calls({3}, 8, 0, "#8 barrier");
    return made;
  };
  CHECK(job(4).seen().named() == 3);
  CHECK(job(5).at({4}, Kind::waiting, "waiting (poll)").suspect().empty());  // perhaps for rank 4
}

TEST_CASE(
    "in a pipeline the rank that is behind in its own group is named, not one that waits for it") {
  Job job(6);
  job.timed_out(0).at({1}, Kind::collective, "after #8 all_reduce[4], in recv (a.py:7)");
  job.at({4}, Kind::elsewhere, "after #8 all_reduce[4], asleep (clock_nanosleep)");
  job.calls({0, 2}, 9, 9, "#9 all_reduce[4]", 1).calls({1}, 8, 0, "#8 all_reduce[4]", 1);
  job.calls({3, 5}, 9, 9, "#9 all_reduce[4]", 2).calls({4}, 8, 0, "#8 all_reduce[4]", 2);
  CHECK(job.seen().named() == 4);
}

TEST_CASE("ranks still in a call that the others have ended are behind") {
  Job job(4);
  job.timed_out(0).waiting({0, 1, 2, 3});
  job.calls({0, 1, 2}, 9, 9, "#9 all_reduce[8]").calls({3}, 8, 8, "#8 broadcast[4]");
  CHECK(job.seen().named() == 3);
}

TEST_CASE("a minority that waits for the majority may have made an extra call") {
  Job job(4);
  job.timed_out(0).waiting({0}).at({1, 2, 3}, Kind::busy, "busy on a CPU");
  job.calls({0}, 9, 9, "#9 barrier").calls({1, 2, 3}, 8, 0, "#8 barrier");
  CHECK(job.suspect().empty());
}

TEST_CASE("releases of a library that differ are named beside a suspect and without one") {
  Job job(4, {"a", "b"});
  job.timed_out(0).waiting({1, 2}).asleep({3}).has_release({0, 1, 2}, "PyTorch 2.15.0");
  CHECK(job.suspect().ends_with(" waited"));
  job.has_release({3}, "PyTorch 2.12.0");
  const std::string differ = "rank 3 (b) has PyTorch 2.12.0, ranks 0-2 (a, b) have PyTorch 2.15.0";
  CHECK(job.suspect().ends_with(" waited; " + differ));
  Job unclear(4, {"a", "b"});
  unclear.failed(0, false)
      .has_release({0, 1, 2}, "PyTorch 2.15.0")
      .has_release({3}, "PyTorch 2.12.0");
  CHECK(unclear.suspect() == differ);
  CHECK(unclear.seen().stall_text().find("\n" + differ) != std::string::npos);
}

TEST_CASE("calls name no rank if one failed for its own reason, or is stopped") {
  const auto job = [] {
    Job made(3);
    made.timed_out(0).waiting({1}).calls({1}, 9, 9, "#9 barrier").calls({2}, 8, 0, "#8 barrier");
    return made;
  };
  CHECK(job().seen().named() == 2);
  CHECK(job().failed(0, false).suspect().empty());
  CHECK(job().at({1}, Kind::stopped, "stopped by a signal (state T)").seen().named() == 1);
}

}  // namespace
}  // namespace ddprun::rendezvous
