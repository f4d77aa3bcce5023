// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/doctor/read_facts.h"

namespace ddprun::doctor {
namespace {

constexpr std::int64_t kMostDigestBytes = 64 << 20;  // a twentieth of a second
constexpr size_t kMostVersions = 4096;               // bytes of python's answer

/// Nothing is imported but what names versions: torch takes seconds.
constexpr const char* kVersions = R"(
import importlib.metadata as m, platform
print("Python", platform.python_version())
for label, names in (("torch", ["torch"]), ("jaxlib", ["jaxlib"]),
                     ("NCCL", ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"])):
    for name in names:
        try:
            print(label, m.version(name))
            break
        except Exception:
            pass
)";

/// FNV-1a over the size and the beginning: to tell programs apart, not to prove that they are the
/// same. Empty: it cannot be read.
std::string digest(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ static_cast<std::uint64_t>(status.st_size);
  const auto chunk = std::make_unique<std::array<char, 1 << 16>>();
  std::int64_t left = kMostDigestBytes;
  for (ssize_t n; left > 0 && (n = read(file.get(), chunk->data(), chunk->size())) > 0; left -= n) {
    for (ssize_t i = 0; i < n; ++i) {
      hash =
          (hash ^ static_cast<unsigned char>((*chunk)[static_cast<size_t>(i)])) * 0x100000001b3ULL;
    }
  }
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), pclose);
  std::string text(kMostVersions, '\0');
  text.resize(pipe ? fread(text.data(), 1, text.size(), pipe.get()) : 0);
  return text;
}

}  // namespace

void read_software(Facts& facts, const Order& order) {
  if (!order.program.empty()) {
    const std::string own = digest(order.program);
    if (!own.empty()) facts.traits["program"] = own;
  }
  if (order.python.empty()) return;
  std::string text =
      output_of(shell_word(order.python) + " -c " + shell_word(kVersions) + " 2>/dev/null");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t space = line.find(' ');
    if (space != std::string::npos) facts.traits[line.substr(0, space)] = line.substr(space + 1);
    at = end + 1;
  }
}

}  // namespace ddprun::doctor
