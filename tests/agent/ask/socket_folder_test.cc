// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/socket_folder.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/agent/ask/place.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun::agent::ask;

using ddprun::must;
using ddprun::tests::Place;

TEST_CASE("socket folder: only its user may enter it, and a job's name becomes a file's name") {
  const Place place;
  const std::string folder = place.path() + "/ddprun";
  CHECK(must(socket_path({folder}, "train-7", 4711)) == folder + "/train-7.4711.sock");
  struct stat status = {};
  REQUIRE(stat(folder.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(must(socket_path({folder}, "../a b\n", 1)) == folder + "/_._a_b_.1.sock");
}

TEST_CASE("socket folder: a folder that others may enter, a link or a file is not used") {
  const Place place;
  const std::string open = place.path() + "/open", good = place.path() + "/good";
  std::filesystem::create_directory(open);
  std::filesystem::permissions(open, std::filesystem::perms(0770));
  CHECK(must(socket_path({open, good}, "a", 1)) == good + "/a.1.sock");
  const std::string link = place.path() + "/link", file = place.path() + "/file";
  std::filesystem::create_directory_symlink(good, link);
  std::ofstream(file) << "x";
  for (const std::string& bad : {open, link, file}) {
    CHECK(must(socket_path({bad}, "a", 1)).starts_with(bad + "-"));
  }
  const std::string none = place.path() + "/none/below";
  const auto path = socket_path({none}, "a", 1);
  REQUIRE(!path);
  CHECK(path.error().message.find(none) != std::string::npos);
}

TEST_CASE("socket folder: if another user has taken its name, all use the folder beside it") {
  if (geteuid() != 0) return;
  const Place place;
  const std::string name = place.path() + "/ddprun-0";
  for (const char* taken : {"", "-stolen"}) {
    std::filesystem::create_directory(name + taken);
    REQUIRE(chown((name + taken).c_str(), 54'321, 54'321) == 0);
  }
  const std::string path = must(socket_path({name}, "a", 7));
  CHECK(std::filesystem::path(path).parent_path().string().size() == name.size() + 7);
  CHECK(must(heartbeat_path({name})).starts_with(path.substr(0, path.rfind('/')) + "/"));
  for (const std::string& folder : {path.substr(0, path.rfind('/')), name + "-stolen"}) {
    std::ofstream(folder + "/a.7.sock") << "";
  }
  const std::vector<Socket> found = sockets_in({name});
  REQUIRE(found.size() == 1);
  CHECK(found.front().path == path);
}

TEST_CASE("socket folder: a path is never too long for a socket") {
  const Place place;
  CHECK(must(socket_path({place.path()}, std::string(500, 'x'), 4711)).size() == 107);
  CHECK(!socket_path({place.path() + "/" + std::string(90, 'y')}, "a", 4711));
}

TEST_CASE("socket folder: sockets are found by their names") {
  const Place place;
  std::filesystem::permissions(place.path(), std::filesystem::perms(0700));
  for (const char* name : {"b.12.sock", "a.b.7.sock", "a.sock", "x.y.sock", "c.12", ".sock",
                           "heartbeats-1", "heartbeats-of.13.sock"}) {
    std::ofstream(place.path() + "/" + name) << "";
  }
  const std::vector<Socket> found = sockets_in({place.path() + "/none", place.path()});
  REQUIRE(found.size() == 4);
  CHECK(found[0].path == place.path() + "/a.b.7.sock");
  CHECK(found[0].pid == 7);
  CHECK(found[1].pid == 12);
  CHECK(found[2].pid == 0);  // for heartbeats
  CHECK(found[3].pid == 13);
}
