// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/paths.h"

using namespace ddprun::tests;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> train(std::vector<std::string> flags) {
  flags.insert(flags.begin(), program_path("train_digits"));
  return flags;
}

/// Returns the last number after `word` in the output.
double last(const Ended& rank, const std::string& word) {
  const std::size_t at = rank.output.rfind(word);
  INFO(rank.output);
  REQUIRE(at != std::string::npos);
  return std::strtod(rank.output.c_str() + at + word.size(), nullptr);
}

/// Runs a training that succeeds; returns rank 0's output.
Ended trained(int size, const std::vector<std::string>& flags) {
  const auto ended = run_ranks(size, train(flags));
  for (const Ended& rank : ended) {
    INFO(rank.output);
    REQUIRE(rank.code == 0);
  }
  for (int rank = 1; rank < size; ++rank) CHECK(ended[rank].output.empty());
  return ended[0];
}

void check_same_loss(double a, double b) {
  CHECK(std::abs(a - b) <= 1e-4 * std::abs(a));
}

}  // namespace

TEST_CASE("the digits are learned, and the number of workers does not change the result") {
  const Ended alone = trained(1, {});
  CHECK(last(alone, "accuracy") >= 0.95);
  for (int size : {2, 4}) check_same_loss(last(alone, "loss"), last(trained(size, {}), "loss"));
}

TEST_CASE("a last batch smaller than the number of workers is weighted correctly") {
  // 1438 digits in batches of 479: the last batch has one digit, so all ranks but one have none.
  const std::vector<std::string> flags = {"--batch", "479", "--epochs", "3"};
  check_same_loss(last(trained(1, flags), "loss"), last(trained(3, flags), "loss"));
}

TEST_CASE("a crashed run resumed from its checkpoint ends like one that did not crash") {
  const Folder folder;
  const std::string checkpoint = folder.path / "digits.ckpt";
  const Ended straight = trained(2, {"--epochs", "5"});
  const std::vector<std::string> flags = {"--epochs", "5", "--checkpoint", checkpoint,
                                          "--crash-at=3:1"};
  const auto crashed = run_ranks(2, train(flags));
  CHECK(crashed[1].code == 128 + 9);
  CHECK(crashed[0].code == 1);
  CHECK(crashed[0].output.find("lost rank 1") != std::string::npos);
  CHECK(crashed[0].output.find("epoch 2/5") != std::string::npos);
  CHECK(crashed[0].output.find("epoch 3/5") == std::string::npos);

  const Ended resumed = trained(2, flags);  // the same flags: it crashes once
  CHECK(resumed.output.find("resumed after epoch 2/5") != std::string::npos);
  CHECK(resumed.output.find("epoch 2/5  loss") == std::string::npos);
  CHECK(last(resumed, "loss") == last(straight, "loss"));
}

TEST_CASE("a crash in the first epoch is not repeated after a restart") {
  const std::vector<std::string> flags = {"--epochs", "1", "--crash-at", "1:0"};
  CHECK(run_ranks(2, train(flags))[0].code == 128 + 9);
  for (const Ended& rank : run_ranks(2, train(flags), {{"TORCHELASTIC_RESTART_COUNT", "1"}})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("a training refuses a damaged checkpoint") {
  const Folder folder;
  const std::string path = folder.path / "digits.ckpt";
  trained(1, {"--epochs", "1", "--checkpoint", path});
  const std::string damage = GENERATE("a byte", "the end", "all");
  const auto size = fs::file_size(path);
  if (damage == "a byte") {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(1000).put('!').put(1);
  } else {
    fs::resize_file(path, damage == "all" ? 10 : size - 4);
  }
  const Ended ended = run_ranks(1, train({"--epochs", "2", "--checkpoint", path}))[0];
  INFO(ended.output);
  CHECK(ended.code == 1);
  CHECK(ended.output.find("train_digits: ddp: rank 0: " + path + " is damaged: ") == 0);
}

TEST_CASE("the error of a data file of another shape names the line") {
  const Folder folder;
  const std::string path = folder.path / "digits.csv";
  std::ofstream(path) << "1,2,3\n";
  const Ended ended = run_ranks(1, train({"--data", path}))[0];
  CHECK(ended.code == 1);
  CHECK(ended.output ==
        "train_digits: " + path + ":1: not 64 pixels from 0 to 16 and a label from 0 to 9\n");
}

TEST_CASE("a bad flag is one line and exit code 2") {
  const auto flags =
      GENERATE(std::vector<std::string>{"--epochs", "0"}, std::vector<std::string>{"--epochs"},
               std::vector<std::string>{"--bach", "3"}, std::vector<std::string>{"--lr=fast"},
               std::vector<std::string>{"--crash-at", "3"});
  const Ended ended = Rank(train(flags), {}).wait();
  INFO(ended.output);
  CHECK(ended.code == 2);
  CHECK(ended.output.find("train_digits: ") == 0);
  CHECK(ended.output.find('\n') + 1 == ended.output.size());
}
