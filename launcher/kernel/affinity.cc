// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/affinity.h"

#include <climits>
#include <sched.h>

namespace ddprun::launcher {
namespace {

constexpr size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;

}  // namespace

std::vector<int> allowed_cpus() {
  for (size_t most = 1024; most <= 1 << 20;
       most *= 4) {  // the kernel refuses a mask that is too small
    std::vector<unsigned long> words(most / kWordBits);
    auto* mask = reinterpret_cast<cpu_set_t*>(words.data());
    if (sched_getaffinity(0, most / CHAR_BIT, mask) != 0) continue;
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, most / CHAR_BIT, mask)) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return {0};
}

std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus) {
  std::vector<unsigned long> words;
  for (const int cpu : cpus) {
    const size_t word = static_cast<size_t>(cpu) / kWordBits;
    if (words.size() <= word) words.resize(word + 1);
    words[word] |= 1UL << (static_cast<size_t>(cpu) % kWordBits);
  }
  return words;
}

}  // namespace ddprun::launcher
