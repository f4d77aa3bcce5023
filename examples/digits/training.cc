// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/training.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace digits {

std::vector<Step> steps(std::size_t digits, std::size_t batch, int rank, int size) {
  const auto own = static_cast<std::size_t>(rank);
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<Step> all;
  std::size_t next = 0;
  for (std::size_t start = 0; start < digits; start += batch) {
    const std::size_t end = std::min(start + batch, digits);
    Step step = {next, 0, end - start};
    for (; next * ranks + own < end; ++next) ++step.count;
    all.push_back(step);
  }
  return all;
}

void report(const Flags& flags, int epoch, double loss, double accuracy) {
  const std::string epochs = std::to_string(flags.epochs);
  const std::string of = std::to_string(epoch) + "/" + epochs;
  const int width = static_cast<int>(2 * epochs.size() + 1);
  std::printf("epoch %-*s loss %.6f  accuracy %.3f\n", width, of.c_str(), loss, accuracy);
  std::fflush(stdout);  // stdout is buffered if it is a pipe
}

void crash_if_asked(const Flags& flags, int epoch, int rank) {
  if (!flags.crash_at || flags.crash_at->epoch != epoch || flags.crash_at->rank != rank) return;
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (restarts != nullptr && std::string(restarts) != "0") return;
  std::fprintf(stderr, "rank %d crashes in epoch %d, as --crash-at asks\n", rank, epoch);
  std::raise(SIGKILL);
}

}  // namespace digits
