// SPDX-License-Identifier: Apache-2.0
#include "ddp/checkpoint.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/limit_memory.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/collectives/training/checkpoint_folder.h"
#include "tests/contains.h"

using namespace ddprun::tests;
namespace fs = std::filesystem;

TEST_CASE("a saved checkpoint is loaded by any number of ranks") {
  const CheckpointFolder folder;
  folder.expect(3, "load save:1 load save:2 load", "nothing\nloaded 1\nloaded 2\n");
  for (const int size : {1, 2, 5}) folder.expect(size, "load", "loaded 2\n");
  folder.expect(1, "save:3", "");
  fs::rename(folder.previous, folder.file);
  folder.expect(2, "load", "loaded 2\n");
}

TEST_CASE("ranks load a checkpoint over any backend that saved it", "[mpi]") {
  const CheckpointFolder folder;
  const std::string lines[] = {"nothing\n", "loaded 2\n"};
  constexpr std::size_t kRanks = 3;
  const auto ended = folder.run(kRanks, "load save:1 save:2 load");
  std::string all;
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    all += rank.output;
  }
  for (const std::string& line : lines) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = all.find(line, at)) != std::string::npos; ++at) ++count;
    CHECK(count == kRanks);
  }
}

TEST_CASE("ranks that find different files load the same one, the newest") {
  const CheckpointFolder folder;
  folder.expect(1, "save:3", "", "2.ckpt");
  folder.expect(1, "save:4", "", "1.ckpt");
  folder.expect(4, "load", "loaded 4\n", "%.ckpt");
}

TEST_CASE("a damaged checkpoint does not replace the previous one") {
  const CheckpointFolder folder;
  folder.expect(1, "save:1 save:2", "");
  fs::resize_file(folder.file, 1000);
  folder.expect(2, "save:3 load", "loaded 3\n");
  fs::rename(folder.previous, folder.file);
  folder.expect(2, "load", "loaded 1\n");
}

TEST_CASE("a checkpoint that cannot be written fails on every rank and leaves the old one") {
  const CheckpointFolder folder;
  const std::string words = error_line(ddp::ErrorKind::system,
                                       "rank 0: cannot write " + folder.file + ": File too large");
  folder.expect(3, "save:1 limit save:2 load", words + "loaded 1\n");
  CHECK(folder.others().empty());

  const CheckpointFolder nowhere;
  nowhere.expect(2, "save:1",
                 error_line(ddp::ErrorKind::system, "rank 0: cannot create " +
                                                        (nowhere.path / "no/such.ckpt").string() +
                                                        ": No such file or directory"),
                 "no/such.ckpt");
}

TEST_CASE("all ranks throw the error of a rank 0 that cannot name or hold the file") {
  const CheckpointFolder folder;
  fs::create_directory(folder.path / "gone");
  const auto ended = run_ranks(
      3,
      [](ddp::ProcessGroup& group, const std::string& gone, const std::string& file) {
        SavedState state;
        ddp::Checkpoint(file).save(group, 1, state.parts());
        fs::current_path(gone);
        group.barrier();
        if (group.rank() == 0) fs::remove(gone);
        ddp::Checkpoint relative("state.ckpt");
        for (int attempt = 0; attempt < 2; ++attempt) {
          try {
            attempt == 0 ? relative.save(group, 2, state.parts())
                         : relative.isave(group, 2, state.parts()).wait();
            wrong("saved");
          } catch (const ddp::Error& error) {
            std::printf("%s\n", error.what());
          }
        }
        if (!kNeedsLittleMemory) return;
        ddp::Checkpoint other(file);
        if (group.rank() == 0) use_up_memory();
        try {
          other.save(group, 3, state.parts());
          wrong("saved");
        } catch (const ddp::Error& error) {
          std::printf("%s\n", error.what());
        }
      },
      (folder.path / "gone").string(), folder.file);
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    const std::string cannot = "ddp: rank 0: cannot create state.ckpt: No such file or directory\n";
    CHECK(contains(rank.output, cannot + cannot));
    const std::string no_memory = "ddp: rank 0: has no memory left to write " + folder.file + "\n";
    CHECK((!kNeedsLittleMemory || contains(rank.output, no_memory)));
  }
}

TEST_CASE("a checkpoint whose name is a symbolic link is saved at the link's target") {
  const CheckpointFolder folder;
  const fs::path there = folder.path / "there";
  fs::create_directory(there);
  fs::create_symlink("there/link", folder.file);
  fs::create_symlink("state", there / "link");
  folder.expect(2, "save:1 save:2 load", "loaded 2\n");
  CHECK(fs::is_symlink(folder.file));
  CHECK(fs::is_symlink(there / "link"));
  CHECK(fs::is_regular_file(there / "state"));
  fs::rename(there / "state.previous", there / "state");
  folder.expect(2, "load", "loaded 1\n");
}

TEST_CASE("a checkpoint is written while the training changes its state") {
  const int size = GENERATE(1, 2, 3, 4);
  const CheckpointFolder folder;
  folder.expect(size, "begin:1 end load begin:2 begin:3 load save:4 load begin:5 load",
                "loaded 1\nloaded 3\nloaded 4\nloaded 5\n");
  folder.expect(size, "begin:6", "");  // the process waits for the file
  folder.expect(1, "load", "loaded 6\n");
  fs::rename(folder.previous, folder.file);
  folder.expect(1, "load", "loaded 5\n");
  CHECK(folder.others().empty());
}

TEST_CASE("a failed write in the background is an error of every rank's Work") {
  const CheckpointFolder folder;
  const std::string words = error_line(ddp::ErrorKind::system,
                                       "rank 0: cannot write " + folder.file + ": File too large");
  folder.expect(3, "save:1 limit begin:2 end load begin:3 load", words + "loaded 1\nloaded 1\n");
  CHECK(folder.others().empty());
}

TEST_CASE("a new group continues a background checkpoint after its group failed") {
  const CheckpointFolder folder;
  check_ranks(
      3,
      [](const std::string& path) {
        const auto store = job_store();
        const int rank = std::stoi(variable_or("RANK", ""));
        const auto join_at = [&](const std::string& name, int size) {
          return ddp::init_process_group({.backend = "cpu",
                                          .timeout = std::chrono::minutes(1),
                                          .store = std::make_shared<ddp::PrefixStore>(name, store),
                                          .rank = rank,
                                          .world_size = size});
        };
        ddp::Checkpoint checkpoint(path);
        SavedState state;
        {
          ddp::ProcessGroup three = join_at("three", 3);
          checkpoint.isave(three, 1, state.parts()).wait();
          if (rank == 2) return store->wait({"failed/0", "failed/1"});
          three.set_timeout(std::chrono::milliseconds(1500));
          try {
            three.barrier();
            wrong("a barrier without rank 2");
          } catch (const ddp::Error& error) {
            check(error.kind() == ddp::ErrorKind::timed_out, error.what());
          }
          store->set("failed/" + std::to_string(rank), "");
        }
        ddp::ProcessGroup two =
            join_at("two", 2);  // its name in its store is that of the other group
        checkpoint.isave(two, 2, state.parts()).wait();
        check(checkpoint.load(two, state.parts()) == 2, "another version");
      },
      folder.file);
}

TEST_CASE("a rank that dies while writing leaves the old checkpoint") {
  const CheckpointFolder folder;
  const auto ended = folder.run(2, "save:1 kill save:2");
  CHECK(ended[0].code == 128 + SIGXFSZ);
  CHECK(ended[1].code == failed(ddp::ErrorKind::peer_lost));
  CHECK(folder.others().size() == 1);
  folder.expect(3, "load save:3 load", "loaded 1\nloaded 3\n");
  CHECK(folder.others().empty());
}

TEST_CASE("a writer that was cut off changes nothing in a newer checkpoint") {
  const CheckpointFolder folder;
  folder.run(1, "save:1 kill save:2");
  REQUIRE(folder.others().size() == 1);
  std::fstream cut_off(folder.others().front(), std::ios::binary | std::ios::in | std::ios::out);
  folder.expect(1, "save:3", "");
  cut_off << std::string(100'000, 'x') << std::flush;
  REQUIRE(cut_off);
  folder.expect(1, "load", "loaded 3\n");
}

TEST_CASE("a file that an older writer begins while a newer one saves is removed") {
  const CheckpointFolder folder;
  folder.run(1, "save:1 kill save:2");
  REQUIRE(folder.others().size() == 1);
  check_ranks(
      1,
      [](ddp::ProcessGroup& newer, const std::string& path, const std::string& older) {
        SavedState state;
        ddp::Checkpoint checkpoint(path);
        // Repeats if the newer writer was done before.
        for (std::uint64_t version = 3; version < 100; ++version) {
          const ddprun::Fd watch(inotify_init1(IN_CLOEXEC));
          inotify_add_watch(watch.get(), fs::path(path).parent_path().c_str(), IN_CREATE);
          const ddp::Work saving = checkpoint.isave(newer, version, state.parts());
          std::array<char, 4096> begun;
          if (read(watch.get(), begun.data(), begun.size()) <= 0) wrong("no file was begun");
          std::ofstream(older) << "begun";
          saving.wait();
          if (!fs::exists(older)) return;
        }
        wrong("the older one's file is there");
      },
      folder.file, folder.others().front());
}

TEST_CASE("a group cannot replace the checkpoint of a group formed later") {
  const CheckpointFolder folder;
  check_ranks(
      1,
      [](ddp::ProcessGroup& older, const std::string& path) {
        ddp::ProcessGroup newer = join();
        SavedState state;
        ddp::Checkpoint(path).save(older, 1, state.parts());
        ddp::Checkpoint(path).save(newer, 2, state.parts());
        try {
          ddp::Checkpoint(path).save(older, 3, state.parts());
          wrong("saved");
        } catch (const ddp::Error& error) {
          check(error.kind() == ddp::ErrorKind::system, error.what());
          check(contains(error.what(), path + " is of a process group that was formed later"),
                error.what());
        }
        check(ddp::Checkpoint(path).load(newer, state.parts()) == 2, "replaced");
        // A process that has loaded a checkpoint continues from it.
        ddp::Checkpoint continued(path);
        continued.load(older, state.parts());
        continued.save(older, 4, state.parts());
      },
      folder.file);
  CHECK(folder.others().empty());
}

TEST_CASE("the error names parts that do not fit") {
  const CheckpointFolder folder;
  folder.expect(1, "save:1", "");
  folder.expect(
      2, "other",
      error_line(ddp::ErrorKind::usage, "rank 0: " + folder.file +
                                            " is of another program: part 1 is float64[300001] "
                                            "there and float32[300001] here"));
  folder.expect(3, "differ",
                error_line(ddp::ErrorKind::mismatch,
                           "ranks do not agree on what to load from a checkpoint: "
                           "part 0 float32[1] on rank 0, part 0 float32[2] on rank 1"));
  for (const Ended& rank : folder.run(2, "device")) {
    CHECK(rank.output.find("a checkpoint of device memory (part 0)") != std::string::npos);
  }
}
