// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/hash.h"
#include "base/text.h"
#include "cli/doctor/read_facts.h"
#include "launcher/process/command_output.h"

namespace ddprun::doctor {
namespace {

constexpr std::int64_t kMostDigestBytes = 32 << 20;  // a twentieth of a second
constexpr std::chrono::seconds kPythonLimit{20};
constexpr std::chrono::seconds kImportLimit{15};
constexpr size_t kMostAnswer = 4096;  // bytes of python's

/// Prints versions, and the line in which a program makes a process group with gloo. Imports only
/// modules that know versions: torch itself takes seconds.
constexpr const char* kVersions = R"(
import ast, importlib.metadata as m, platform, sys
print("Python", platform.python_version())
for label, names in (("torch", ["torch"]), ("jaxlib", ["jaxlib"]),
                     ("NCCL", ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"])):
    for name in names:
        try:
            print(label, m.version(name))
            break
        except Exception:
            pass
try:
    with open(sys.argv[1], "rb") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
except Exception:
    nodes = []
for call in nodes:
    if not isinstance(call, ast.Call): continue
    words = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "backend")]
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "init_process_group" and "gloo" in [getattr(word, "value", "") for word in words]:
        print("gloo", call.lineno)
        break
)";

/// Prints the modules of well-known, large packages that a program imports, and imports them.
constexpr const char* kImports = R"(
import ast, os, sys
program = sys.argv[1]
large = {"accelerate", "deepspeed", "jax", "lightning", "pytorch_lightning", "tensorflow", "torch", "transformers"}
names = set()
with open(program, "rb") as file:
    for each in ast.walk(ast.parse(file.read())):
        if isinstance(each, ast.Import):
            names.update(alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.level == 0:
            names.add(each.module)
names = sorted(each for each in names if each.split(".")[0] in large)
sys.path[0] = os.path.dirname(os.path.realpath(program))
print(",".join(names), end="", flush=True)
answer = os.dup(1)  # ends with this process
os.dup2(2, 1)
for each in names:
    __import__(each)
os._exit(0)
)";

/// FNV-1a over the size and the beginning: tells programs apart, but does not prove that they are
/// the same. Empty: it cannot be read.
std::string digest(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  Fnv64 hash;
  hash.add(std::to_string(status.st_size));
  const auto chunk = std::make_unique<std::array<char, 1 << 16>>();
  std::int64_t left = kMostDigestBytes;
  for (ssize_t n; left > 0 && (n = read(file.get(), chunk->data(), chunk->size())) > 0; left -= n) {
    hash.add({chunk->data(), static_cast<size_t>(n)});
  }
  return hex_text(hash.value(), 16);
}

/// The part of the interpreter's output that comes within `limit`.
std::string answer_of(const std::string& python, std::vector<std::string> arguments,
                      std::chrono::seconds limit) {
  launcher::Command command;
  command.program = python;
  command.arguments = std::move(arguments);
  command.arguments.insert(command.arguments.begin(), python);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  return std::move(launcher::outputs_of({command}, kMostAnswer, deadline).front().text);
}

void time_imports(Facts& facts, const Order& order) {
  const auto begin = std::chrono::steady_clock::now();
  facts.imports = answer_of(order.python, {"-c", kImports, order.program}, kImportLimit);
  const auto took =
      std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
  facts.import_seconds = static_cast<int>(took.count());
}

}  // namespace

void read_software(Facts& facts, const Order& order) {
  if (!order.program.empty()) {
    const std::string own = digest(order.program);
    if (!own.empty()) facts.traits["program"] = own;
  }
  if (order.python.empty()) return;
  const std::string text = answer_of(order.python, {"-c", kVersions, order.program}, kPythonLimit);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string line(take_piece(rest, '\n'));
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    if (line.starts_with("gloo ")) {
      facts.gloo_line = line.substr(space + 1);
    } else {
      facts.traits[line.substr(0, space)] = line.substr(space + 1);
    }
  }
  if (order.workers > 1 && !order.preloads && !order.program.empty()) time_imports(facts, order);
}

}  // namespace ddprun::doctor
