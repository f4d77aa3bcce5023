// SPDX-License-Identifier: Apache-2.0
// A worker that prints COUNT lines of 100 bytes as fast as it can.
//   bench_lines COUNT full   in blocks of 64 KiB, which end within a line
//   bench_lines COUNT line   one write() per line
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/output_line.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool by_line = std::strcmp(argv[2], "line") == 0;
  static char buffer[1 << 16];
  std::setvbuf(stdout, buffer, by_line ? _IOLBF : _IOFBF, sizeof buffer);

  const char* rank = std::getenv("RANK");
  const int count = std::atoi(argv[1]);
  for (int number = 0; number < count; number++) {
    const ddprun::bench::OutputLine line(rank == nullptr ? 0 : std::atoi(rank), number);
    if (std::fwrite(line.text().data(), 1, line.text().size(), stdout) != line.text().size()) {
      return 1;
    }
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
