// SPDX-License-Identifier: Apache-2.0
// What fuzzing starts from, and what it has found, as an ordinary test.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

TEST_CASE("the corpus of the fuzz target does no harm") {
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_CORPUS)) {
    INFO(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    // A failure ends the process, and says on stderr what is broken.
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++replayed;
  }
  CHECK(replayed > 30);
}
