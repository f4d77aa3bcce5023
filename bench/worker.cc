// SPDX-License-Identifier: Apache-2.0
// A minimal worker; libc only.
//   bench_worker stamp   records when main() began, and ends
//   bench_worker wait    records that and waits; rank 1 reads a byte from the FIFO BENCH_GATE,
//                        records the time, and exits with 1 or kills itself. After a restart it
//                        does the same as "stamp"
//   bench_worker watch   the same as "wait"; if it gets SIGTERM, records that and ends
// Records are Stamps, appended to the file BENCH_STAMPS.
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "bench/stamp.h"

using ddprun::bench::Stamp;

namespace {

int number(const char* variable, int otherwise) {
  const char* value = getenv(variable);
  return value == nullptr ? otherwise : atoi(value);
}

void record(Stamp stamp) {
  const char* path = getenv("BENCH_STAMPS");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0 || write(file, &stamp, sizeof stamp) != sizeof stamp) _exit(99);
  close(file);
}

[[noreturn]] void fail_at_the_gate(Stamp stamp) {
  const char* gate = getenv("BENCH_GATE");
  const int file = gate == nullptr ? -1 : open(gate, O_RDONLY | O_CLOEXEC);
  char how = 0;
  if (file < 0 || read(file, &how, 1) != 1) _exit(98);
  stamp.kind = Stamp::Kind::death;
  stamp.time = ddprun::bench::monotonic_ns();
  record(stamp);
  if (how == 'k') kill(getpid(), SIGKILL);
  _exit(1);
}

Stamp mine{};

void on_stop(int) {
  mine.kind = Stamp::Kind::asked_to_stop;
  mine.time = ddprun::bench::monotonic_ns();
  record(mine);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto asked_to = [&](const char* mode) { return argc > 1 && strcmp(argv[1], mode) == 0; };
  Stamp stamp{};
  stamp.time = ddprun::bench::monotonic_ns();
  stamp.kind = Stamp::Kind::main;
  stamp.pid = getpid();
  stamp.rank = number("RANK", number("PMI_RANK", number("OMPI_COMM_WORLD_RANK", 0)));
  stamp.generation = number("TORCHELASTIC_RESTART_COUNT", 0);
  mine = stamp;
  if (asked_to("watch")) signal(SIGTERM, on_stop);
  record(stamp);
  if (stamp.generation > 0 || !(asked_to("wait") || asked_to("watch"))) return 0;
  if (stamp.rank == 1) fail_at_the_gate(stamp);
  for (;;) pause();
}
