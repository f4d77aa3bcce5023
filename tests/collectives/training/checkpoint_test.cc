// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
namespace fs = std::filesystem;

namespace {

struct Place : Folder {
  std::string file = path / "state.ckpt";
  std::string previous = file + ".previous";

  std::vector<Ended> run(int size, std::vector<std::string> actions,
                         const std::string& named = "") const {
    actions.insert(actions.begin(),
                   {DDPRUN_BIN "/ddp_checkpoint", named.empty() ? file : (path / named).string()});
    return run_ranks(size, actions);
  }

  /// Runs actions that do nothing unexpected; every rank's output is this.
  void expect(int size, const std::vector<std::string>& actions, const std::string& output,
              const std::string& named = "") const {
    for (const Ended& rank : run(size, actions, named)) {
      CHECK(rank.output == output);
      CHECK(rank.code == 0);
    }
  }
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The line of an error that all ranks print.
std::string error(ddp::ErrorKind kind, const std::string& sentence) {
  return "error " + std::to_string(static_cast<int>(kind)) + ": ddp: " + sentence + "\n";
}

constexpr auto kSystem = ddp::ErrorKind::system;

}  // namespace

TEST_CASE("what was saved is loaded by any number of ranks") {
  const Place place;
  place.expect(3, {"load", "save:1", "load", "save:2", "load"}, "nothing\nloaded 1\nloaded 2\n");
  for (const int size : {1, 2, 5}) place.expect(size, {"load"}, "loaded 2\n");
  fs::rename(place.previous, place.file);
  place.expect(2, {"load"}, "loaded 1\n");
}

TEST_CASE("ranks that find different files load the same one, the newest") {
  const Place place;
  place.expect(1, {"save:3"}, "", "2.ckpt");
  place.expect(1, {"save:4"}, "", "1.ckpt");
  place.expect(4, {"load"}, "loaded 4\n", "%.ckpt");
}

TEST_CASE("a damaged checkpoint is told alike on all ranks, with what is left") {
  const Place place;
  place.expect(1, {"save:8", "save:9"}, "");
  const std::string whole = read(place.file);
  const std::string left =
      "; version 8 is whole, in " + place.previous + ": rename it to go on from there";
  const std::string name = "rank 0: " + place.file;
  const auto expect = [&](const std::string& bytes, const std::string& what) {
    write(place.file, bytes);
    place.expect(2, {"load", "load"},
                 error(kSystem, name + what + left) + error(kSystem, name + what + left));
  };
  for (const std::size_t at :
       {std::size_t{17}, std::size_t{25}, std::size_t{3000}, whole.size() - 1}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    expect(flipped, " is damaged: its checksum is wrong");
  }
  expect("", " is damaged: it ends in its first lines");
  expect(whole.substr(0, 60), " is damaged: it ends in its first lines");
  expect(whole.substr(0, whole.size() - 1), " is damaged: it has 2404103 bytes instead of 2404104");
  expect(whole + "x", " is damaged: it has 2404105 bytes instead of 2404104");
  expect("x" + whole, " is not a checkpoint of ddp, or of a later version");

  write(place.previous, whole.substr(0, 100));
  place.expect(2, {"load"},
               error(kSystem, name + " is not a checkpoint of ddp, or of a later version"
                                     "; remove it to start over"));
}

TEST_CASE("a damaged checkpoint does not take the place of the one before") {
  const Place place;
  place.expect(1, {"save:1", "save:2"}, "");
  fs::resize_file(place.file, 1000);
  place.expect(2, {"save:3", "load"}, "loaded 3\n");
  fs::rename(place.previous, place.file);
  place.expect(2, {"load"}, "loaded 1\n");
}

TEST_CASE("a checkpoint that cannot be written fails on every rank and leaves the old one") {
  const Place place;
  const std::string words =
      error(kSystem, "rank 0: cannot write " + place.file + ".tmp: File too large");
  place.expect(3, {"save:1", "limit", "save:2", "load"}, words + "loaded 1\n");
  CHECK(!fs::exists(place.file + ".tmp"));

  const Place nowhere;
  nowhere.expect(
      2, {"save:1"},
      error(kSystem, "rank 0: cannot create " + (nowhere.path / "no/such.ckpt.tmp").string() +
                         ": No such file or directory"),
      "no/such.ckpt");
}

TEST_CASE("a rank that dies in the middle of writing leaves the old checkpoint") {
  const Place place;
  const auto ended = place.run(2, {"save:1", "kill", "save:2"});
  CHECK(ended[0].code == 128 + SIGXFSZ);
  CHECK(ended[1].code == failed(ddp::ErrorKind::peer_lost));
  CHECK(fs::file_size(place.file + ".tmp") == 4096);
  place.expect(3, {"load", "save:3", "load"}, "loaded 1\nloaded 3\n");
}

TEST_CASE("parts that do not fit are named") {
  const Place place;
  place.expect(1, {"save:1"}, "");
  place.expect(2, {"other"},
               error(ddp::ErrorKind::usage, "rank 0: " + place.file +
                                                " is of another program: part 1 is float64[300001] "
                                                "there and float32[300001] here"));
  place.expect(3, {"differ"},
               error(ddp::ErrorKind::mismatch,
                     "ranks do not agree on what to load from a checkpoint: "
                     "part 0 float32[1] on rank 0, part 0 float32[2] on rank 1"));
  for (const Ended& rank : place.run(2, {"device"})) {
    CHECK(rank.output.find("a checkpoint of device memory (part 0)") != std::string::npos);
  }
}
