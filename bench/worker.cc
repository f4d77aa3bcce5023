// SPDX-License-Identifier: Apache-2.0
// A worker that costs next to nothing; libc only.
//   bench_worker stamp   notes when main() began and ends
//   bench_worker wait    notes it and waits; the one of rank 1 ends with code 1, or by SIGKILL,
//                        once the file BENCH_GATE (a FIFO) says so, and notes when
//                        In a later generation it is "stamp".
//   bench_worker watch   as "wait", and notes when SIGTERM reaches it, which ends it
// Notes are Stamp records at the end of the file BENCH_STAMPS.
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

void note(Stamp stamp) {
  const char* path = getenv("BENCH_STAMPS");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0 || write(file, &stamp, sizeof stamp) != sizeof stamp) _exit(99);
  close(file);
}

[[noreturn]] void die_at_the_gate(Stamp stamp) {
  const char* gate = getenv("BENCH_GATE");
  const int file = gate == nullptr ? -1 : open(gate, O_RDONLY | O_CLOEXEC);
  char how = 0;
  if (file < 0 || read(file, &how, 1) != 1) _exit(98);
  stamp.kind = Stamp::Kind::death;
  stamp.time = ddprun::bench::monotonic_ns();
  note(stamp);
  if (how == 'k') kill(getpid(), SIGKILL);
  _exit(1);
}

Stamp mine{};

void on_stop(int) {
  mine.kind = Stamp::Kind::asked_to_stop;
  mine.time = ddprun::bench::monotonic_ns();
  note(mine);
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
  note(stamp);
  if (stamp.generation > 0 || !(asked_to("wait") || asked_to("watch"))) return 0;
  if (stamp.rank == 1) die_at_the_gate(stamp);
  for (;;) pause();
}
