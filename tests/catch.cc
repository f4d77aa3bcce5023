// SPDX-License-Identifier: Apache-2.0
// All of Catch2 2; Catch2 3 is a library. Ends a test that hangs, and prints its section.
// DDPRUN_TEST_SECONDS in the environment sets the limit for each test; 0: no limit.
#define CATCH_CONFIG_RUNNER
#include "tests/catch.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace {

#ifdef TWOBLUECUBES_SINGLE_INCLUDE_CATCH_HPP_INCLUDED
using ListenerBase = Catch::TestEventListenerBase;
#else
using ListenerBase = Catch::EventListenerBase;
#endif

unsigned seconds_limit() {
  const char* given = std::getenv("DDPRUN_TEST_SECONDS");
  return static_cast<unsigned>(given == nullptr ? DDPRUN_TEST_SECONDS : std::atoi(given));
}

char message[1024];  // the signal handler only writes it
size_t message_size = 0;

void on_time_over(int) {
  if (write(STDERR_FILENO, message, message_size) < 0) _exit(1);
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

class TimeLimit : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    ListenerBase::testCaseStarting(test);
    test_ = test.name;
    std::signal(SIGALRM, on_time_over);
    alarm(seconds_limit());
  }

  void sectionStarting(const Catch::SectionInfo& section) override {
    ListenerBase::sectionStarting(section);
    const std::string name = section.name;
    const int size =
        std::snprintf(message, sizeof message, "'%s', in '%s', did not end within %u s\n",
                      test_.c_str(), name.c_str(), seconds_limit());
    message_size = std::min(sizeof message - 1, static_cast<size_t>(std::max(0, size)));
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    alarm(0);
    ListenerBase::testCaseEnded(stats);
  }

 private:
  std::string test_;
};
CATCH_REGISTER_LISTENER(TimeLimit)

}  // namespace

int run_catch(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
