// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "examples/arguments.h"
#include "examples/digits/data.h"

namespace digits {
namespace {

constexpr const char* kHelp = R"(learns handwritten digits, data-parallel

  ddprun --nproc_per_node 4 PROGRAM [flags]

  --checkpoint PATH       save after each epoch; start from it when it exists
  --epochs N              10
  --batch N               digits per step, of all ranks together (32)
  --lr RATE               learning rate (0.05)
  --seed N                of the first parameters and of the order (1)
  --data PATH             digits.csv
  --crash-at EPOCH:RANK   in a run from the start, that rank dies in the middle of that epoch
)";

using examples::number;

Crash parse_crash(std::string_view flag, std::string_view text) {
  constexpr const char* kWhat = "EPOCH:RANK, as in 3:1";
  const std::size_t colon = std::min(text.find(':'), text.size());
  Crash crash;
  crash.epoch = number(flag, text.substr(0, colon), 1, 1 << 30, kWhat);
  crash.rank = number(flag, text.substr(std::min(colon + 1, text.size())), 0, 1 << 30, kWhat);
  return crash;
}

/// Takes one flag's value.
void set(Flags& flags, std::string_view flag, std::string_view value) {
  constexpr int kMany = 1 << 30;
  if (flag == "--data") {
    flags.data = value;
  } else if (flag == "--checkpoint") {
    flags.checkpoint = value;
  } else if (flag == "--epochs") {
    flags.epochs = number(flag, value, 1, kMany, "a number of epochs, at least 1");
  } else if (flag == "--batch") {
    flags.batch = number(flag, value, 1, kMany, "a number of digits, at least 1");
  } else if (flag == "--lr") {
    flags.rate = number(flag, value, 0.0F, 1e3F, "a rate from 0 to 1000");
  } else if (flag == "--seed") {
    flags.seed = number<std::uint64_t>(flag, value, 0, ~std::uint64_t{0}, "a number, at least 0");
  } else if (flag == "--crash-at") {
    flags.crash_at = parse_crash(flag, value);
  } else {
    examples::refuse("unknown flag " + std::string(flag) + " (--help lists them)");
  }
}

}  // namespace

Flags parse_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--help") {
      std::printf("%s: %s", program_invocation_short_name, kHelp);
      std::exit(0);
    }
    const std::size_t equals = arg.find('=');
    if (equals != std::string_view::npos) {
      set(flags, arg.substr(0, equals), arg.substr(equals + 1));
    } else if (i + 1 < argc) {
      set(flags, arg, argv[++i]);
    } else {
      set(flags, arg, "");
    }
  }
  if (flags.data.empty()) flags.data = default_path();
  return flags;
}

}  // namespace digits
