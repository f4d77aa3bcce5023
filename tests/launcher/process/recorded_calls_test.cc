// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/recorded_calls.h"

#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

/// As a worker of PyTorch 2.15 writes it by the hook of agent/worker/recorder_hook.h.
const std::string kAnswer =
    R"([{"group": 6161240384, "begun": 4, "open": 4, "failed": false, "release": "PyTorch 2.15.0",)"
    R"( "recent": ["#3 all_reduce[20]", "#4 barrier"]},)"
    R"( {"group": 6206595552, "begun": 0, "open": 0, "failed": false, "recent": []}])";

std::string next_path() {
  static int count = 0;
  return "/tmp/ddprun-recorded-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

/// Listens at a path, and writes `answer` to the first that connects, if it is not empty.
class RecordedWorker {
 public:
  explicit RecordedWorker(std::string answer)
      : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(listen(listener_.get(), 1) == 0);
    if (answer.empty()) return;
    thread_ = std::thread([this, answer = std::move(answer)] {
      const Fd peer(accept(listener_.get(), nullptr, nullptr));
      send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
  }

  ~RecordedWorker() {
    if (thread_.joinable()) thread_.join();
    unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }

 private:
  const std::string path_ = next_path();
  Fd listener_;
  std::thread thread_;
};

TEST_CASE("a worker's line says where it is in each group's calls") {
  const auto calls = parse_recorded_calls(kAnswer);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0] == WorkerCall{.group = 6161240384,
                               .begun = 4,
                               .open = 4,
                               .shown = "#4 barrier",
                               .recent = {"#3 all_reduce[20]", "#4 barrier"},
                               .release = "PyTorch 2.15.0"});
  CHECK((calls[1].group == 6206595552 && calls[1].shown.empty() && calls[1].recent.empty()));
  CHECK(calls[1].release.empty());
  CHECK(call_text(calls) == "in #4 barrier");
}

TEST_CASE("the call that is shown is the oldest open one, and has a number if it has no name") {
  const auto shown = [](const std::string& numbers) {
    const auto calls = parse_recorded_calls(R"([{"group":1,)" + numbers +
                                            R"(,"recent":["#8 barrier","#9 all_reduce[2]"]}])");
    return calls.empty() ? "" : calls[0].shown;
  };
  CHECK(shown(R"("begun":9,"open":8)") == "#8 barrier");
  CHECK(shown(R"("begun":9,"open":0)") == "#9 all_reduce[2]");
  CHECK(shown(R"("begun":9,"open":3)") == "#3");
  CHECK(shown(R"("begun":9,"open":10)").empty());
  CHECK(shown(R"("begun":-1,"open":0)").empty());
  CHECK(shown(R"("begun":9)").empty());
}

TEST_CASE("the times of a group's last calls are there if all of them make sense") {
  const auto times = [](const std::string& text, int begun = 200) {
    const auto calls =
        parse_recorded_calls(R"([{"group":1,"members":4,"open":0,"recent":[],"begun":)" +
                             std::to_string(begun) + R"(,"times":)" + text + "}]");
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].members == 4);
    return calls[0].times;
  };
  CHECK(times("[1795998707413661,9,0]") ==
        std::vector<std::int64_t>{1795998707413661, 1795998707413670, 1795998707413670});
  for (const char* wrong :
       {"[]", "[0,7]", "[7,-1]", "[7,1.5]", "[\"7\"]", "7", "[9007199254740993]",
        "[9007199254740991,7]", "[7,18446744073709551615]"}) {
    CAPTURE(wrong);
    CHECK(times(wrong).empty());
  }
  CHECK(times("[7,8,9]", 2).empty());
  std::string many = "[1";
  for (int i = 2; i <= 257; ++i) many += ",1";
  CHECK(times(many + "]", 300).size() == 257);
  CHECK(times(many + ",1]", 300).empty());
}

TEST_CASE("any other text has no calls, and what is in a line is bounded") {
  for (const char* text :
       {"", "[", "{}", "[]", "7", "[7, null, []]", R"([{"group": 7}])",
        R"([{"group": 0, "begun": 1, "open": 0, "recent": []}])",
        R"([{"group": 281474976710656, "begun": 1, "open": 0, "recent": []}])"}) {
    CAPTURE(text);
    CHECK(parse_recorded_calls(text).empty());
  }
  const std::string name(500, 'x');
  std::string calls;
  for (int i = 0; i < 100; ++i) calls += (i == 0 ? "\"\\u001b" : ",\"\\u001b") + name + "\"";
  std::string groups;
  for (int i = 1; i <= 90; ++i) {
    groups += (i == 1 ? "" : ",") + (R"({"group":)" + std::to_string(i)) +
              R"(,"begun":200,"open":0,"recent":[)" + (i == 1 ? calls : "") + "]}";
  }
  const auto parsed = parse_recorded_calls("[" + groups + "]");
  REQUIRE(parsed.size() == 64);
  REQUIRE(parsed[0].recent.size() == 16);
  CHECK(parsed[0].recent[0].size() == 48);
  CHECK(parsed[0].recent[0].starts_with("?xxx"));
}

TEST_CASE("workers are asked all at once, and one that does not answer has no calls") {
  const RecordedWorker answers(kAnswer), silent(""), broken("[{"),
      long_one(std::string(200'000, ' '));
  const auto calls = recorded_calls(
      {answers.path(), silent.path(), "", "/nowhere/7", broken.path(), long_one.path()}, 5s);
  REQUIRE(calls.size() == 6);
  CHECK(calls[0].size() == 2);
  for (size_t i = 1; i < calls.size(); ++i) CHECK(calls[i].empty());
}

TEST_CASE("a file that a worker has left is read, and nothing else") {
  const std::string path = "/tmp/ddprun-left-" + std::to_string(getpid());
  CHECK(left_calls(path).empty());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs(kAnswer.c_str(), file);
  std::fclose(file);
  CHECK(left_calls(path).size() == 2);
  unlink(path.c_str());
  REQUIRE(symlink("/dev/zero", path.c_str()) == 0);
  CHECK(left_calls(path).empty());
  unlink(path.c_str());
  CHECK(left_calls("").empty());
}

}  // namespace
}  // namespace ddprun::launcher
