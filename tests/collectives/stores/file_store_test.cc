// SPDX-License-Identifier: Apache-2.0
#include "ddp/file_store.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/stores/error_of.h"
#include "tests/contains.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::FileStore;
namespace fs = std::filesystem;

namespace {

ddp::Error refusal(const std::string& path, const ddp::FileStoreOptions& options = {}) {
  return error_of([&] { FileStore(path, options); });
}

/// In another process: opens the store, does `work` and is killed.
template <class F>
void die_with(const std::string& path, F work) {
  const pid_t child = ::fork();
  if (child == 0) {
    FileStore store(path, {.world_size = 2});
    work(store);
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("only the last process to leave a file store removes it") {
  const Folder folder;
  const std::string path = folder.path / "store";
  std::optional<FileStore> first;
  first.emplace(path, ddp::FileStoreOptions{.world_size = 2});
  first->set("k", "of the first");
  first.reset();  // possible before the second process comes
  {
    FileStore second(path, {.world_size = 2});
    CHECK(second.get("k") == "of the first");
    CHECK(fs::exists(path));
  }
  CHECK_FALSE(fs::exists(path));
  FileStore(path, {.world_size = 1}).set("k", "v");  // as good as new
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a file that an earlier run left behind is refused") {
  const Folder folder;
  const std::string path = folder.path / "store";
  die_with(path, [](FileStore& store) { store.set("k", "old"); });
  const auto error = refusal(path, {.world_size = 2});
  CHECK(error.kind() == ErrorKind::usage);
  CHECK(contains(error.what(), "ddp: file store " + path + ": was left by an earlier run: 1"));
  CHECK(contains(error.what(), "remove it"));
}

TEST_CASE("a file that world_size processes have opened already is refused") {
  const Folder folder;
  const std::string path = folder.path / "store";
  FileStore one(path, {.world_size = 2});
  FileStore two(path, {.world_size = 2});
  const auto error = refusal(path, {.world_size = 2});
  CHECK(error.kind() == ErrorKind::usage);
  CHECK(contains(error.what(), "2 processes opened it before, of world_size 2"));
}

TEST_CASE("a process killed while it writes costs the others nothing") {
  const Folder folder;
  const std::string path = folder.path / "store";
  FileStore alive(path, {.world_size = 2, .timeout = 20s});
  die_with(path, [&](FileStore& store) {
    store.set("k", "whole");
    // The start of an entry that announces more bytes than follow.
    const std::string begun = std::string("S\x02\0\0\0\x64\0\0\0/k", 11) + std::string(60, 'y');
    std::ofstream(path, std::ios::app | std::ios::binary) << begun;
  });
  CHECK(alive.get("k") == "whole");
  alive.set("after", "v");
  CHECK(alive.get("after") == "v");
  alive.add("n", 3);
  CHECK(FileStore(path).get("n") == "3");  // the half-written entry is gone from the file
}

TEST_CASE("a damaged file, or one that is no store, is an error with the byte") {
  const Folder folder;
  const std::string path = folder.path / "store";
  std::ofstream(path) << "something else entirely";
  CHECK(contains(refusal(path).what(), path + ": is another kind of file"));
  CHECK(contains(refusal(folder.path).what(), "cannot be opened: Is a directory"));
  CHECK(contains(refusal("/nonexistent/store").what(), "cannot be opened: No such file"));

  const std::string damaged = folder.path / "damaged";
  FileStore store(damaged);
  store.set("k", "v");
  const auto end = fs::file_size(damaged);
  std::ofstream(damaged, std::ios::app) << "X is no entry";
  try {
    store.get("k");
    FAIL("read on");
  } catch (const ddp::Error& error) {
    CHECK(contains(error.what(), "no entry begins at byte " + std::to_string(end)));
  }
}

TEST_CASE("a file that is removed or emptied under its users is an error") {
  const Folder folder;
  const std::string path = folder.path / "store";
  FileStore store(path);
  store.set("k", "v");
  const bool removed = GENERATE(true, false);
  removed ? (void)fs::remove(path) : fs::resize_file(path, 3);
  try {
    store.get("k");
    FAIL("read on");
  } catch (const ddp::Error& error) {
    CHECK(error.kind() == ErrorKind::unreachable);
    CHECK(contains(error.what(), removed ? "was removed" : "was truncated"));
  }
}
