// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/devices.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/paths.h"

using namespace ddprun::launcher;
using ddprun::tests::fake_nvml_path;
namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

namespace {

/// A root directory with the files that a driver would show.
class Machine {
 public:
  Machine() {
    char name[] = "/tmp/ddprun-devices-XXXXXX";
    if (mkdtemp(name) == nullptr) FAIL("no temporary directory");
    root_ = name;
  }
  ~Machine() { fs::remove_all(root_); }

  Machine& with_driver() {
    fs::create_directories(root_ + "/proc/driver/nvidia/gpus");
    return *this;
  }
  Machine& with_gpus(int count) {
    with_driver();
    for (int i = 0; i < count; ++i) {
      fs::create_directories(root_ + "/proc/driver/nvidia/gpus/0000:0" + std::to_string(i) +
                             ":00.0");
    }
    return *this;
  }
  Machine& with_nodes(const Strings& names) {
    fs::create_directories(root_ + "/dev");
    for (const std::string& name : names) std::ofstream(root_ + "/dev/" + name).put('\n');
    return *this;
  }
  /// GPU number i is at 0000:0i:00.0, closest to the i-th of these NUMA nodes.
  Machine& with_nodes_of_gpus(const std::vector<int>& nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::string folder =
          root_ + "/sys/bus/pci/devices/0000:0" + std::to_string(i) + ":00.0";
      fs::create_directories(folder);
      std::ofstream(folder + "/numa_node") << nodes[i] << '\n';
    }
    return *this;
  }
  std::vector<int> nodes_of(const Strings& gpus, const std::string& nvml = "/no/such.so") const {
    std::vector<int> nodes;  // -1: unknown
    for (const auto& node : numa_nodes(gpus, root_, nvml)) nodes.push_back(node.value_or(-1));
    return nodes;
  }
  Strings find(DeviceSearch search, const std::string& nvml = "/no/such/library.so") const {
    return find_devices(search, root_, nvml);
  }

 private:
  std::string root_;
};

Strings visible(const char* list) {
  return parse_visible_devices(list).names;
}

/// Sets the GPUs that the fake of NVML (fake_nvml.cc) reports: a word for each.
void nvml_reports(const char* gpus) {
  setenv("FAKE_NVML", gpus, 1);
}

}  // namespace

TEST_CASE("a list of visible devices is split, and its entries are passed on unchanged") {
  CHECK(visible("0,1") == Strings{"0", "1"});
  CHECK(visible("GPU-5a3c, MIG-77 ,03") == Strings{"GPU-5a3c", "MIG-77", "03"});
}

TEST_CASE("a list of visible devices ends where CUDA stops reading it") {
  for (const char* list : {"", "-1", "NoDevFiles", "2,-1,3", "2,,3", "2,"}) {
    INFO(list);
    CHECK(visible(list) == (*list == '2' ? Strings{"2"} : Strings()));
    CHECK(parse_visible_devices(list).problem.empty());  // the user means that
  }
  CHECK(visible("all").empty());
  CHECK(parse_visible_devices("all").problem == "'all' names no GPU");
  CHECK(visible("4,3,two,one") == Strings{"4", "3"});
  CHECK(parse_visible_devices("4,3,two,one").problem == "'two' names no GPU");
}

TEST_CASE("CUDA accepts no GPU of a list that names one twice") {
  for (const char* list : {"0,0", "0,1,2,1", "1,01", "GPU-5a,GPU-5a"}) {
    INFO(list);
    CHECK(visible(list).empty());
    CHECK(parse_visible_devices(list).problem.starts_with("it names "));
  }
  CHECK(visible("0,-1,0") == Strings{"0"});
}

TEST_CASE("a list for another machine ends at the first GPU that is not here") {
  const auto present = [](const char* list, size_t gpus) {
    return present_devices(parse_visible_devices(list), gpus);
  };
  CHECK(present("2,4,7", 8).names == Strings{"2", "4", "7"});
  CHECK(present("2,4,7", 8).problem.empty());
  CHECK(present("2,4,7", 4).names == Strings{"2"});
  CHECK(present("2,4,7", 4).problem == "this host has no GPU 4");
  CHECK(present("GPU-5a3c,1", 2).names == Strings{"GPU-5a3c", "1"});
  CHECK(present("GPU-5a3c", 0).names.empty());
  CHECK(present("2,4,7", 0).problem == "this host has no GPU");
  CHECK(present("", 0).problem.empty());
}

TEST_CASE("a machine without a driver has no GPUs, and NVML is not loaded") {
  nvml_reports("gpu");
  Machine machine;
  machine.with_nodes_of_gpus({1});

  CHECK(machine.find(DeviceSearch::quick).empty());
  CHECK(machine.find(DeviceSearch::exact, fake_nvml_path()).empty());
  CHECK(machine.nodes_of({"0"}, fake_nvml_path()) == std::vector<int>{-1});
}

TEST_CASE("the kernel's list of GPUs is counted") {
  CHECK(Machine().with_gpus(3).find(DeviceSearch::quick) == Strings{"0", "1", "2"});
  CHECK(Machine().with_gpus(0).find(DeviceSearch::quick).empty());
}

TEST_CASE("device nodes are counted if the kernel has no list") {
  Machine machine;
  machine.with_nodes({"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia3", "nvidia12", "null"});

  CHECK(machine.find(DeviceSearch::quick) == Strings{"0", "1", "2"});
}

TEST_CASE("a container with fewer device nodes has fewer GPUs") {
  Machine machine;
  machine.with_gpus(8).with_nodes({"nvidiactl", "nvidia2", "nvidia5"});

  CHECK(machine.find(DeviceSearch::quick) == Strings{"0", "1"});
}

TEST_CASE("an exact search uses NVML and skips GPUs without permission") {
  nvml_reports("gpu denied gpu");

  CHECK(Machine().with_gpus(3).find(DeviceSearch::exact, fake_nvml_path()) == Strings{"0", "1"});
}

TEST_CASE("a quick search does not use NVML") {
  nvml_reports("gpu");

  CHECK(Machine().with_gpus(2).find(DeviceSearch::quick, fake_nvml_path()) == Strings{"0", "1"});
}

TEST_CASE("a GPU in MIG mode is replaced by its instances, and all are named by UUID") {
  nvml_reports("gpu mig gpu");

  CHECK(Machine().with_gpus(3).find(DeviceSearch::exact, fake_nvml_path()) ==
        Strings{"GPU-0", "MIG-1-0", "MIG-1-2", "GPU-2"});
}

TEST_CASE("with a missing or broken NVML, or another library, the kernel's list counts") {
  Machine machine;
  machine.with_gpus(2);

  CHECK(machine.find(DeviceSearch::exact, "/no/such/library.so") == Strings{"0", "1"});
  CHECK(machine.find(DeviceSearch::exact, "libm.so.6") == Strings{"0", "1"});
  nvml_reports("broken");
  CHECK(machine.find(DeviceSearch::exact, fake_nvml_path()) == Strings{"0", "1"});
}

TEST_CASE("a GPU's NUMA node is found by each of its names") {
  nvml_reports("gpu mig denied gpu");
  Machine machine;
  machine.with_gpus(4).with_nodes_of_gpus({0, 1, 2, 3});

  CHECK(machine.nodes_of({"1", "2", "0"}, fake_nvml_path()) == std::vector<int>{1, 3, 0});
  CHECK(machine.nodes_of({"GPU-3", "GPU-0"}, fake_nvml_path()) == std::vector<int>{3, 0});
  CHECK(machine.nodes_of({"MIG-1-2", "MIG-GPU-1/7/0"}, fake_nvml_path()) == std::vector<int>{1, 1});
  CHECK(machine.nodes_of({"7", "GPU-9", "MIG-0", "01", ""}, fake_nvml_path()) ==
        std::vector<int>{-1, -1, -1, -1, -1});
}

TEST_CASE("without NVML the NUMA nodes come from the driver's list of GPUs") {
  Machine machine;
  machine.with_gpus(3).with_nodes_of_gpus({1, -1, 0});
  CHECK(machine.nodes_of({"0", "1", "2", "3"}) == std::vector<int>{1, -1, 0, -1});

  machine.with_nodes({"nvidiactl", "nvidia2"});  // unknown which of the three is GPU 0
  CHECK(machine.nodes_of({"0"}) == std::vector<int>{-1});
}
