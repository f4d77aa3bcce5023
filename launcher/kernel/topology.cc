// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/topology.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <hwloc.h>
#include <memory>
#include <sched.h>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;

/// The major version of the interface of libhwloc.so.15.
constexpr unsigned kMajor = 2;

/// Keeps hwloc from loading its plug-ins, which load dozens of libraries to find devices.
class NoPlugins {
 public:
  NoPlugins() : ours_(getenv(kPath) == nullptr) {
    if (ours_) setenv(kPath, "", 1);
  }
  NoPlugins(const NoPlugins&) = delete;
  NoPlugins& operator=(const NoPlugins&) = delete;
  ~NoPlugins() {
    if (ours_) unsetenv(kPath);
  }

 private:
  static constexpr const char* kPath = "HWLOC_PLUGINS_PATH";
  bool ours_;
};

/// The functions of hwloc that we need. ddprun does not link hwloc, as each start would load it; so
/// hwloc's inline functions, which call others, cannot be used.
class Hwloc {
 public:
  static Result<Hwloc> load(const std::string& name) {
    Hwloc hwloc;
    hwloc.library_.reset(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!hwloc.library_) {
      return Error{Errc::usage,
                   "needs the library " + name +
                       ", which is not installed: install libhwloc15 (Debian, Ubuntu) or "
                       "hwloc-libs (Fedora, RHEL)"};
    }
    if (!hwloc.resolve() || hwloc.version_() >> 16 != kMajor) {
      return Error{Errc::system, name + " is not version 2 of hwloc"};
    }
    return hwloc;
  }

  Result<Topology> discover(const std::vector<int>& allowed) const {
    const NoPlugins none;
    hwloc_topology_t machine = nullptr;
    if (init_(&machine) != 0) return os_error("hwloc cannot be initialized", errno);
    const std::unique_ptr<hwloc_topology, decltype(destroy_)> owner(machine, destroy_);
    if (load_(machine) != 0) return os_error("hwloc cannot read this machine's topology", errno);
    return read(machine, allowed);
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };

  Hwloc() = default;

  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_.get(), name));
    return function != nullptr;
  }

  bool resolve() {
    return find("hwloc_get_api_version", version_) && find("hwloc_topology_init", init_) &&
           find("hwloc_topology_load", load_) && find("hwloc_topology_destroy", destroy_) &&
           find("hwloc_get_type_depth", depth_) && find("hwloc_get_nbobjs_by_depth", count_) &&
           find("hwloc_get_obj_by_depth", object_) && find("hwloc_bitmap_isset", contains_);
  }

  /// The id of the outermost object around this CPU with a type from `first` to `last`; -1: none.
  static int enclosing(hwloc_obj_t cpu, hwloc_obj_type_t first, hwloc_obj_type_t last) {
    int id = -1;
    for (hwloc_obj_t object = cpu; object != nullptr; object = object->parent) {
      if (object->type >= first && object->type <= last) id = static_cast<int>(object->gp_index);
    }
    return id;
  }

  /// The NUMA node with the smallest number; further nodes of the same CPU are another kind of
  /// memory.
  int node_of(hwloc_topology_t machine, unsigned cpu) const {
    int smallest = -1;
    for (unsigned i = 0; i < count_(machine, HWLOC_TYPE_DEPTH_NUMANODE); ++i) {
      const hwloc_obj_t node = object_(machine, HWLOC_TYPE_DEPTH_NUMANODE, i);
      const int number = static_cast<int>(node->os_index);
      if (contains_(node->cpuset, cpu) && (smallest < 0 || number < smallest)) smallest = number;
    }
    return std::max(smallest, 0);
  }

  Topology read(hwloc_topology_t machine, const std::vector<int>& allowed) const {
    Topology topology;
    const int depth = depth_(machine, HWLOC_OBJ_PU);
    for (unsigned i = 0; i < count_(machine, depth); ++i) {
      const hwloc_obj_t cpu = object_(machine, depth, i);
      const int number = static_cast<int>(cpu->os_index);
      if (!std::binary_search(allowed.begin(), allowed.end(), number)) continue;
      const int core = enclosing(cpu, HWLOC_OBJ_CORE, HWLOC_OBJ_CORE);
      topology.push_back({number, core < 0 ? static_cast<int>(cpu->gp_index) : core,
                          enclosing(cpu, HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L5CACHE),
                          node_of(machine, cpu->os_index),
                          enclosing(cpu, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_PACKAGE)});
    }
    return topology;
  }

  std::unique_ptr<void, Close> library_;
  decltype(&hwloc_get_api_version) version_ = nullptr;
  decltype(&hwloc_topology_init) init_ = nullptr;
  decltype(&hwloc_topology_load) load_ = nullptr;
  decltype(&hwloc_topology_destroy) destroy_ = nullptr;
  decltype(&hwloc_get_type_depth) depth_ = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) count_ = nullptr;
  decltype(&hwloc_get_obj_by_depth) object_ = nullptr;
  decltype(&hwloc_bitmap_isset) contains_ = nullptr;
};

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

Result<Topology> discover_topology(const std::vector<int>& allowed, const std::string& library) {
  const Result<Hwloc> hwloc = Hwloc::load(library);
  if (!hwloc) return hwloc.error();
  return hwloc->discover(allowed);
}

}  // namespace ddprun::launcher
