// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/hang_watch.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;
using News = HangWatch::News;
using Duration = HangWatch::Duration;

constexpr Signs kNothing = {};
constexpr Signs kOutput = {.output = true};
constexpr Signs kCpu = {.cpu = true};
constexpr Signs kWork = {.work = true};
constexpr Signs kHeld = {.held = true};

/// A node whose clock the test moves.
class WatchedNode {
 public:
  explicit WatchedNode(std::optional<Duration> limit = {})
      : watch_(limit, now_), next_(now_ + watch_.interval()) {}

  /// Looks in time, with the same `signs`, for `time`. Returns how often the workers were quiet.
  int looks(Duration time, const Signs& signs) {
    int quiet = 0;
    for (const auto end = now_ + time; now_ < end;) {
      now_ = std::min(next_, end);
      if (now_ < next_) continue;
      quiet += is_quiet(watch_.look(signs, now_)) ? 1 : 0;
      next_ = now_ + watch_.interval();
    }
    return quiet;
  }

  /// Sends a beat each `pause` from `ranks` ranks, and looks in time between them.
  int beats(int count, Duration pause, int ranks = 1) {
    int quiet = 0;
    for (int i = 0; i < count; ++i) {
      for (int rank = 0; rank < ranks; ++rank) watch_.beat(rank, now_);
      quiet += looks(pause, kNothing);
    }
    return quiet;
  }

  /// The next look comes at once afterwards.
  void stands_still(Duration time) { next_ = now_ += time; }

  int progress() const { return progress_; }
  int busy() const { return busy_; }
  HangWatch& watch() { return watch_; }

 private:
  bool is_quiet(News news) {
    progress_ += news == News::progress ? 1 : 0;
    busy_ += news == News::busy ? 1 : 0;
    return news == News::quiet;
  }

  HangWatch::Time now_{1h};
  int progress_ = 0;
  int busy_ = 0;
  HangWatch watch_;
  HangWatch::Time next_;
};

TEST_CASE("workers without any sign for ten minutes are reported as quiet, once") {
  WatchedNode node;
  CHECK(node.looks(9min, kNothing) == 0);
  CHECK(node.looks(1min, kNothing) == 1);
  CHECK(node.looks(10h, kNothing) == 0);
  CHECK(node.watch().quiet_for() >= 10h);
}

TEST_CASE("without heartbeats each sign counts as progress") {
  const Signs signs = GENERATE(kOutput, kCpu, kWork);
  WatchedNode node;
  CHECK(node.looks(24h, signs) == 0);
  CHECK(node.looks(10min, kNothing) == 1);
  CHECK(node.looks(1min, signs) == 0);
  CHECK(node.progress() == 1);
  CHECK(node.looks(10min, kNothing) == 1);
}

TEST_CASE("a worker that waits in a collective call makes no progress, even if it computes") {
  const Signs spinning = {.output = true, .cpu = true, .blocked = true};
  WatchedNode node;
  CHECK(node.looks(9min, spinning) == 0);
  CHECK(node.looks(1min, spinning) == 1);
  WatchedNode compiling;
  CHECK(compiling.looks(24h, {.work = true, .blocked = true}) == 0);
}

TEST_CASE("the user's limit holds") {
  WatchedNode node(30s);
  CHECK(node.looks(29s, kNothing) == 0);
  CHECK(node.looks(2s, kNothing) == 1);
}

TEST_CASE("a hang that ends is not learned as a pause: the next one is reported as soon") {
  WatchedNode node;
  node.beats(100, 1s, 4);
  for (int hang = 1; hang <= 3; ++hang) {
    CHECK(node.looks(2min, kNothing) == 1);
    CHECK(node.beats(10, 1s, 4) == 0);
    CHECK(node.progress() == hang);
    CHECK(node.watch().limit() == 60s);
  }
  // The same holds for a rank whose first beat comes after the look that saw the others' beats.
  CHECK(node.looks(2min, kNothing) == 1);
  CHECK(node.beats(10, 1s, 3) == 0);
  CHECK(node.beats(10, 1s, 4) == 0);
  CHECK(node.watch().limit() == 60s);
}

TEST_CASE("with heartbeats a silent rank is reported sooner, and its long pauses are learned") {
  WatchedNode node;
  CHECK(node.beats(100, 1s, 4) == 0);
  CHECK(node.watch().limit() == 60s);
  CHECK(node.looks(50s, kNothing) == 0);
  CHECK(node.beats(10, 40s, 4) == 0);
  CHECK(node.watch().limit() == 255s);  // the longest pause was 51 s
  CHECK(node.looks(200s, kNothing) == 0);
  CHECK(node.looks(100s, kNothing) == 1);
}

TEST_CASE("the first five heartbeats teach nothing: a program compiles between them") {
  WatchedNode node;
  CHECK(node.beats(5, 9min) == 0);
  CHECK(node.beats(100, 1s) == 0);
  CHECK(node.watch().limit() == 60s);
}

TEST_CASE("a progress bar or a polling CPU does not hide that heartbeats have ended") {
  const Signs signs = GENERATE(kOutput, kCpu);
  WatchedNode node;
  node.beats(100, 1s);
  CHECK(node.looks(9min, signs) == 0);  // it may compile, or evaluate
  CHECK(node.looks(1min + 6s, signs) == 1);
  WatchedNode strict(30s);
  strict.beats(100, 1s);
  CHECK(strict.looks(1min, signs) == 1);
}

TEST_CASE(
    "workers that only compute are reported after twice the limit, until they show something "
    "else") {
  WatchedNode node;
  CHECK(node.looks(19min, kCpu) == 0);
  CHECK(node.busy() == 0);
  CHECK(node.looks(1min, kCpu) == 0);
  CHECK(node.busy() == 1);
  CHECK(node.looks(45min, kCpu) == 0);
  CHECK(node.busy() == 3);
  CHECK(node.progress() == 0);
  node.looks(1min, kOutput);
  CHECK(node.progress() == 1);
  CHECK(node.looks(10min, kNothing) == 1);
  CHECK(node.busy() == 3);
  WatchedNode steady(30s);
  steady.beats(100, 1s);
  steady.looks(29s, kCpu);
  CHECK(steady.busy() == 0);
}

TEST_CASE("a checkpoint is written for as long as it takes, with heartbeats or without") {
  WatchedNode node;
  node.beats(GENERATE(0, 3, 100), 1s);
  CHECK(node.looks(3h, kWork) == 0);
}

TEST_CASE("a debugger, or a stopped reader of the output, is no hang") {
  WatchedNode node;
  node.beats(GENERATE(0, 100), 1s);
  CHECK(node.looks(24h, kHeld) == 0);
  CHECK(node.looks(10min, kNothing) == 1);
  CHECK(node.looks(24h, kHeld) == 0);
  CHECK(node.progress() == 0);
}

TEST_CASE("after a suspended host or a stopped job, the watch counts from zero") {
  WatchedNode node;
  node.beats(GENERATE(0, 100), 1s);
  const Duration limit = node.watch().limit();
  for (int i = 0; i < 5; ++i) {
    CHECK(node.looks(limit * 4 / 5, kNothing) == 0);
    node.stands_still(8h);
  }
  CHECK(node.watch().limit() == limit);
  CHECK(node.looks(limit * 4 / 5, kNothing) == 0);
  node.stands_still(8h);
  node.watch().beat(0, HangWatch::Time(1h + 80h));
  CHECK(node.watch().limit() == limit);
}

/// All actions of workers, in a random order.
class RandomWalk {
 public:
  explicit RandomWalk(unsigned seed) : random_(seed) {
    if (chance(0.5)) limit_ = std::chrono::seconds(1 + random_() % 600);
    node_.emplace(limit_, now_);
  }

  void step() {
    now_ += chance(0.001) ? Duration(1h) : std::chrono::milliseconds(1 + random_() % 3'000);
    mood();
    if (beats_ && chance(0.9)) {
      node_->beat(static_cast<int>(random_() % 4), now_);
      shown_ = now_;
      silent_ = 0;
    }
    if (now_ >= looked_ + node_->interval()) look();
  }

  int hangs() const { return hangs_; }

 private:
  bool chance(double share) { return std::uniform_real_distribution<>()(random_) < share; }

  void look() {
    const bool stood_still = now_ - looked_ > 2 * node_->interval() + 5s;
    if (signs_.work || stood_still || (signs_.held && !quiet_)) shown_ = now_;
    if (stood_still) silent_ = 0;  // it counts from zero again
    looked_ = now_;
    check(node_->look(signs_, now_));
  }

  void mood() {
    if (!chance(0.005)) return;
    beats_ = chance(0.3);
    signs_ = {chance(0.2), chance(0.2), chance(0.1), chance(0.05), chance(0.2)};
  }

  /// A hang is never reported soon after a beat or work, and always some time after both.
  void check(News news) {
    const Duration since = now_ - shown_;
    if (news == News::quiet) {
      CHECK_FALSE(std::exchange(quiet_, true));
      CHECK(since >= (limit_ ? *limit_ : Duration(1min)) - 1s);
      ++hangs_;
    }
    if (news == News::busy) busy_ = true;
    if (news == News::progress) {
      CHECK((quiet_ || busy_));
      quiet_ = busy_ = false;
    }
    const bool is_active = (signs_.output || signs_.cpu) && !signs_.blocked;
    const bool is_silent = !beats_ && !is_active && !signs_.work && !signs_.held;
    silent_ = is_silent ? silent_ + 1 : 0;
    if (silent_ > 25) CHECK(quiet_);
  }

  std::mt19937 random_;
  std::optional<Duration> limit_;
  HangWatch::Time now_{1h}, looked_{1h}, shown_{1h};
  std::optional<HangWatch> node_;
  Signs signs_;
  bool beats_ = true;
  bool quiet_ = false;
  bool busy_ = false;  // told that they only compute
  int silent_ = 0;     // looks in a row
  int hangs_ = 0;
};

TEST_CASE("no order of events hides a hang or causes a false one") {
  int hangs = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomWalk walk(seed);
    for (int i = 0; i < 3'000; ++i) walk.step();
    hangs += walk.hangs();
  }
  CHECK(hangs > 100);
}

}  // namespace
}  // namespace ddprun::agent
