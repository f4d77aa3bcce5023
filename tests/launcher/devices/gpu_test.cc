// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/devices/gpu_errors.h"
#include "launcher/devices/nvml.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::launcher;
using ddprun::tests::contains;
using ddprun::tests::fake_nvml_path;
namespace fs = std::filesystem;

namespace {

/// A folder that contains a driver, as the kernel shows it.
class DriverRoot {
 public:
  DriverRoot() {
    path_ = mkdtemp(path_.data());
    fs::create_directories(path_ + "/proc/driver/nvidia");
  }
  ~DriverRoot() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "ddprun-gpu-XXXXXX").string();
};

void append(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::app) << text;
}

/// A log, whose earlier records a watch ignores, with pids of this namespace.
struct WatchedLog {
  DriverRoot root;
  std::string kmsg = root.path() + "/kmsg";
  WatchedLog() {
    append(kmsg, "4,1,9,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n");
    fs::create_directories(root.path() + "/ns");
    fs::create_symlink("pid:[4026531836]", root.path() + "/ns/pid");
  }
};

constexpr const char* kOwnError =
    "4,2,10,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000010\n";

}  // namespace

TEST_CASE("GPUs: NVML's figures of their use, by name") {
  const DriverRoot root;
  setenv("FAKE_NVML", "gpu busy hot mig denied", 1);
  GpuReader reader(fake_nvml_path(), root.path());
  const auto uses = reader.read({"0", "1", "GPU-2", "MIG-3-0", "4", "7", "GPU-9", ""});
  CHECK(uses.size() == 4);
  CHECK(uses.at("0").busy == 0.0);
  CHECK(uses.at("0").slowed.empty());  // its power limit is not a fault
  CHECK(uses.at("1").busy == 0.97);
  CHECK(uses.at("1").watts == 512.5);
  CHECK(uses.at("1").memory_total == 80ull << 30);
  CHECK(uses.at("GPU-2").slowed == "too hot");
  CHECK(!uses.at("MIG-3-0").busy);
  CHECK(uses.at("MIG-3-0").memory > 0);
  CHECK(GpuReader(fake_nvml_path(), "/nowhere").read({"0"}).empty());
  CHECK(GpuReader("libnowhere.so", root.path()).read({"0"}).empty());
  unsetenv("FAKE_NVML");
}

TEST_CASE("GPUs: errors that the driver writes into the kernel's log are parsed") {
  const auto own = parse_gpu_error(kOwnError);
  REQUIRE(own);
  CHECK((own->gpu == "0000:3b:00" && own->xid == 31 && own->pid == 4711 && !own->of_gpu));
  const auto unknown = parse_gpu_error("4,2,10,-;NVRM: Xid (PCI:0000:3b:00): 999, pid='<unknown>'");
  REQUIRE(unknown);
  CHECK((unknown->text == "Xid 999" && unknown->pid == 0 && !unknown->of_gpu));
  CHECK(!parse_gpu_error("4,2,10,-;NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, Ch 00000010"));
  CHECK(!parse_gpu_error("12,2,10,-;NVRM: Xid (PCI:0000:3b:00): 79, a program wrote it"));
  CHECK(!parse_gpu_error("4,2,10,-;NVRM: Xid (PCI:0000:3b:00): x"));
  CHECK(!parse_gpu_error("4,2,10,-;NVRM: Xid (PCI:"));
  CHECK(!parse_gpu_error("4,2,10"));
}

TEST_CASE("GPUs: an error causes its process's end, a fault of the GPU that of any process") {
  const WatchedLog log;
  GpuErrorWatch watch(log.kmsg, log.root.path());
  CHECK(watch.cause(4711).empty());
  append(log.kmsg, kOwnError);
  CHECK(watch.cause(4711) ==
        "GPU 0000:3b:00: Xid 31 (an invalid address in GPU memory), as this host's kernel says");
  CHECK(watch.cause(4712).empty());
  append(log.kmsg, "4,3,11,-;NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n");
  CHECK(watch.cause(4712).starts_with("GPU 0000:5e:00: Xid 79 (the GPU fell off the bus)"));
}

TEST_CASE("GPUs: the first error of a process is the cause, or an earlier one of its GPU") {
  const std::string assertion =
      "4,3,11,-;NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python, Ch 8\n";
  const std::string memory = "4,3,11,-;NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', DBE\n";
  const auto cause_after = [](const std::vector<std::string>& records) {
    const WatchedLog log;
    GpuErrorWatch watch(log.kmsg, log.root.path());
    for (const std::string& record : records) {
      append(log.kmsg, record);
      watch.cause(1);  // a read of the kernel's log returns one record, but not of a file
    }
    return watch.cause(4711);
  };
  CHECK(cause_after({assertion}) ==
        "GPU 0000:3b:00: Xid 43 (an error of its own program on the GPU, such as a failed "
        "assertion), as this host's kernel says");
  CHECK(contains(cause_after({kOwnError, assertion}), "Xid 31 "));
  CHECK(contains(cause_after({memory, assertion}), "Xid 48 "));
  CHECK(contains(cause_after({assertion, memory}), "Xid 43 "));
  const std::string other =
      "4,3,11,-;NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n";
  CHECK(contains(cause_after({other, assertion}), "Xid 43 "));
}

TEST_CASE("GPUs: an error that was repaired, or only accompanies another, causes no end") {
  const WatchedLog log;
  GpuErrorWatch watch(log.kmsg, log.root.path());
  for (const char* text :
       {"63, pid='<unknown>', Row Remapper: New row marked for remapping", "92, High rate",
        "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226)",
        "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"}) {
    append(log.kmsg, std::string("4,3,11,-;NVRM: Xid (PCI:0000:3b:00): ") + text + "\n");
    CHECK(watch.cause(4711).empty());
  }
  append(log.kmsg,
         "4,3,11,-;NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Fatal XC0 i0 Link 03 (0x0)\n");
  CHECK(contains(watch.cause(4711), "Xid 145 (an error of NVLink)"));
}

TEST_CASE("GPUs: pids of another namespace match no process") {
  const WatchedLog log;
  GpuErrorWatch watch(log.kmsg, "/nowhere");
  append(log.kmsg, kOwnError);
  CHECK(watch.cause(4711).empty());
}
