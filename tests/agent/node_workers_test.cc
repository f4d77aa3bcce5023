// SPDX-License-Identifier: Apache-2.0
#include "agent/node_workers.h"

#include <csignal>
#include <string>
#include <sys/prctl.h>
#include <variant>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

namespace ddprun::agent {
namespace {

TEST_CASE("a line says that some workers have ended and others run on") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  boost::asio::io_context io;
  JobSpec job;
  job.program = "/bin/sh";
  job.command = {"sh", "-c", "[ $RANK = 1 ] || exec sleep 600"};
  launcher::Output output(io.get_executor());
  Events events;
  bool ended = false;
  NodeWorkers workers(
      io.get_executor(), job, "here", output, events,
      [&](const Event& event) { ended = std::holds_alternative<event::WorkersEnded>(event); },
      std::chrono::seconds(1));
  std::string said;
  log::set_writer([&](std::string_view line) {
    said += line;
    if (tests::contains(said, "still run")) workers.stop(SIGKILL);
  });
  must(workers.open_files());
  rendezvous::Layout layout;
  layout.local_size = layout.world_size = 3;
  workers.start(layout, {"127.0.0.1", 1});
  while (!ended) io.run_one();
  log::set_writer({});
  CHECK(tests::contains(said, "rank 1 ended 1 s ago with exit code 0; ranks 0, 2 still run"));
}

}  // namespace
}  // namespace ddprun::agent
