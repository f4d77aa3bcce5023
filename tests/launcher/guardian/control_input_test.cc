// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string_view>
#include <unistd.h>

#include "launcher/guardian/guardian.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

using Signals = std::vector<int>;

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }

  void write(std::string_view bytes) const {
    CHECK(::write(in.get(), bytes.data(), bytes.size()) == std::ssize(bytes));
  }

  Fd out, in;
};

TEST_CASE("bytes are signals, but only those that a user may send to a ddprun") {
  Pipe pipe;
  ControlInput input(std::move(pipe.out));
  CHECK(input.fd() >= 0);
  CHECK(input.timeout() > 0);
  const char bytes[] = {SIGINT, 0, SIGKILL, SIGUSR1, SIGSEGV, SIGSTOP, SIGTERM, 127, -1};
  pipe.write({bytes, sizeof bytes});
  CHECK(input.read(true) == Signals{SIGINT, SIGUSR1, SIGTERM});
  CHECK(input.read(false).empty());
}

TEST_CASE("the end of the input is SIGTERM, and nothing else for a while") {
  Pipe pipe;
  ControlInput input(std::move(pipe.out));
  pipe.in.reset();
  CHECK(input.read(true) == Signals{SIGTERM});
  CHECK(input.fd() == -1);
  CHECK(input.timeout() > 0);
  CHECK(input.read(true).empty());
}

TEST_CASE("silence is SIGTERM, and a second SIGTERM after as long again") {
  Pipe pipe;
  ControlInput input(std::move(pipe.out), std::chrono::milliseconds(0));
  for (int i = 0; i < 2; ++i) {
    CHECK(input.timeout() == 0);
    CHECK(input.read(false) == Signals{SIGTERM});
  }
  CHECK(input.timeout() == -1);
  CHECK(input.read(false).empty());
}

TEST_CASE("without an input there is nothing to wait for") {
  ControlInput input{Fd()};
  CHECK(input.fd() == -1);
  CHECK(input.timeout() == -1);
  CHECK(input.read(false).empty());
}

}  // namespace
}  // namespace ddprun::launcher
